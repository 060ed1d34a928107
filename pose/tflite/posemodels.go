package tflite

import (
	"fmt"
	"maps"
)

// PoseModel is one of the models of the npm package @mediapipe/pose 0.5.1675469404 (Apache-2.0).
type PoseModel struct {
	// Source is the file's path in the package, SHA256 its sum in hex.
	Source, SHA256 string
	// Name is the name of the converted model, without ending.
	Name string
	// Outputs are those that are kept: the segmentation picture of the landmark models is left out.
	Outputs []string
}

// PoseModels lists the detector and the three landmark models. The packed assets file of the package is the
// detector, byte for byte.
func PoseModels() []PoseModel {
	landmarks := []string{"Identity", "Identity_1", "Identity_3", "Identity_4"}
	return []PoseModel{
		{
			Source: "package/pose_solution_packed_assets.data", Name: "pose_detection",
			SHA256: "a63c614bef30d35947f13be361820b1e4e3bec9cfeebf4d11216a18373108e85",
		},
		{
			Source: "package/pose_landmark_lite.tflite", Name: "pose_landmark_lite", Outputs: landmarks,
			SHA256: "f17bfbecadb61c3be1baa8b8d851cc6619c870a87167b32848ad20db306b9d61",
		},
		{
			Source: "package/pose_landmark_full.tflite", Name: "pose_landmark_full", Outputs: landmarks,
			SHA256: "e9a5c5cb17f736fafd4c2ec1da3b3d331d6edbe8a0d32395855aeb2cdfd64b9f",
		},
		{
			Source: "package/pose_landmark_heavy.tflite", Name: "pose_landmark_heavy", Outputs: landmarks,
			SHA256: "59e42d71bcd44cbdbabc419f0ff76686595fd265419566bd4009ef703ea8e1fe",
		},
	}
}

// Files converts the model into its two forms and returns them by file name: NAME.onnx for ONNX Runtime and
// NAME-opencv.onnx for OpenCV.
func (p PoseModel) Files(tflite []byte) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, opencv := range [...]bool{false, true} {
		b, err := Convert(tflite, Options{OpenCV: opencv, Outputs: p.Outputs})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		if opencv {
			files[p.Name+"-opencv.onnx"] = b
		} else {
			files[p.Name+".onnx"] = b
		}
	}
	return files, nil
}

// ConvertAll converts all pose models. src holds the files of the package by their path in it (PoseModel.Source);
// the result holds the converted files by name.
func ConvertAll(src map[string][]byte) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, p := range PoseModels() {
		b, ok := src[p.Source]
		if !ok {
			return nil, fmt.Errorf("convert pose models: %s is missing", p.Source)
		}
		converted, err := p.Files(b)
		if err != nil {
			return nil, fmt.Errorf("convert pose models: %w", err)
		}
		maps.Copy(files, converted)
	}
	return files, nil
}
