package doctor

import (
	"context"
	"net/url"
	"time"

	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker"
)

const (
	// DefaultTimeout bounds an area, unless it has to load something.
	DefaultTimeout = 5 * time.Second
	// loadTimes is how many times longer the areas may take that read models or start programs, on a machine that is busy extracting.
	loadTimes = 6
)

// Worker is a worker's deployment.
type Worker struct {
	// Config is what worker.LoadConfig made of the environment, also if it found Faults.
	Config worker.Config
	Faults error
	// Timeout bounds each area, 0: DefaultTimeout. Those that read models or start programs get 6 times that.
	Timeout time.Duration
}

// Examine looks at everything that a worker needs and reports each finding, in a fixed order. What depends on a faulty variable is left
// out.
func (w Worker) Examine(ctx context.Context, report func(Finding)) Summary {
	if w.Timeout == 0 {
		w.Timeout = DefaultTimeout
	}

	return run(ctx, w.areas(), report)
}

func (w Worker) areas() []area {
	config := area{"configuration", w.Timeout, func(context.Context) []Finding { return w.configuration() }}

	return append([]area{config}, sound(w.Faults, []conditional{
		{w.redis(), "REDIS_URL PREFIX QUEUE"},
		{w.secrets(), "WORKER_SECRET DOOR_SECRET"},
		{w.control(), "CONTROL_URL WORKER_SECRET"},
		{w.storage(), "STORAGE_HOSTS"},
		{w.callbacks(), "CALLBACK_HOSTS CONTROL_URL"},
		{w.models(), "EXTRACTOR"},
		{w.decoder(), "EXTRACTOR"},
		{w.extractor(), "EXTRACTOR"},
		{w.workDir(), "WORK_DIR SLOTS MAX_INPUT_BYTES"},
	})...)
}

func (w Worker) configuration() []Finding {
	c := w.Config
	sound := good("configuration", "complete: queue %s:%s, %s", c.Prefix, c.Queue, number(int64(c.Slots), "slot", "slots"))

	if c.AllowInsecure {
		sound = warning("configuration", "unset POSEFLEET_ALLOW_INSECURE outside of tests", "plain http and private addresses are allowed")
	}

	return configuration(w.Faults, "a worker", sound)
}

func (w Worker) redis() area {
	c := w.Config

	return area{"redis", w.Timeout + searchTime, func(ctx context.Context) []Finding {
		if !c.QueueEnabled {
			return []Finding{good("redis", "not needed: POSEFLEET_QUEUE_ENABLED is false")}
		}

		return examineRedis(ctx, queue.Options{RedisURL: c.RedisURL, Prefix: c.Prefix, Name: c.Queue})
	}}
}

func (w Worker) secrets() area {
	return area{"worker secret", w.Timeout, func(context.Context) []Finding {
		door := w.Config.DoorSecrets
		if !w.Config.HTTPEnabled {
			door = nil
		}

		return examineSecrets(w.Config.WorkerSecrets, door)
	}}
}

func (w Worker) control() area {
	return area{"control plane", w.Timeout, func(ctx context.Context) []Finding {
		return examineControl(ctx, w.Config.ControlURL, "POSEFLEET_CONTROL_URL", w.Config.WorkerSecrets)
	}}
}

func (w Worker) storage() area {
	return area{"storage hosts", w.Timeout, func(ctx context.Context) []Finding {
		return examineHosts(ctx, hostsArea{
			name: "storage hosts", variable: worker.EnvPrefix + "STORAGE_HOSTS", entries: w.Config.StorageHosts,
			control: w.controlURL(), insecure: w.Config.AllowInsecure,
		})
	}}
}

func (w Worker) callbacks() area {
	return area{"callback hosts", w.Timeout, func(ctx context.Context) []Finding {
		return examineCallbacks(ctx, hostsArea{
			name: "callback hosts", variable: worker.EnvPrefix + "CALLBACK_HOSTS", entries: w.Config.CallbackHosts,
			control: w.controlURL(), insecure: w.Config.AllowInsecure,
		})
	}}
}

// controlURL is nil if the variable can't be read.
func (w Worker) controlURL() *url.URL {
	u, err := url.Parse(w.Config.ControlURL)
	if err != nil || u.Host == "" {
		return nil
	}

	return u
}

func (w Worker) extractorArea() extractorArea {
	return extractorArea{command: w.Config.ExtractorCommand, env: w.Config.ExtractorEnv}
}

func (w Worker) models() area {
	return area{"models", w.Timeout * loadTimes, func(ctx context.Context) []Finding { return examineModels(ctx, w.extractorArea()) }}
}

func (w Worker) decoder() area {
	return area{"decoder", w.Timeout * loadTimes, func(ctx context.Context) []Finding { return examineDecoder(ctx, w.extractorArea()) }}
}

func (w Worker) extractor() area {
	return area{"extractor", w.Timeout*loadTimes + 2*farewell, func(ctx context.Context) []Finding {
		ctx, cancel := context.WithTimeout(ctx, w.Timeout*loadTimes)
		defer cancel()

		return examineHello(ctx, w.extractorArea())
	}}
}

func (w Worker) workDir() area {
	return area{"work dir", w.Timeout, func(context.Context) []Finding {
		return examineWorkDir(w.Config.WorkDir, w.Config.Slots, int64(w.Config.MaxInput))
	}}
}
