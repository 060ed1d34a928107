package study

import (
	"strconv"
)

// State is a state of a shipment, in the order of its life.
type State string

// The states that a shipment reports. It is transferred three times.
const (
	Accepted        State = "accepted"
	Transferred     State = "transferred"
	OutForDelivery  State = "out-for-delivery"
	DeliveryAttempt State = "delivery-attempt"
	Delivered       State = "delivered"
)

// Event is one event of one shipment.
type Event struct {
	Tracking string `json:"tracking"`
	State    State  `json:"state"`
	// Number is the event's place in the shipment's life, from 0.
	Number int `json:"number"`
}

// ID is a name of the event that no other has.
func (e Event) ID() string { return e.Tracking + "_" + strconv.Itoa(e.Number) }

// Effects is how many things happen because of an event: a delivered parcel is noticed, settled and billed.
func (e Event) Effects() int {
	if e.State == Delivered {
		return deliveredEffects
	}
	return 1
}

// deliveredEffects includes one line of an invoice.
const deliveredEffects = 3

// EventsPerShipment is how many events each shipment has.
func EventsPerShipment() int { return len(life()) }

// life are the events of each shipment.
func life() []State {
	return []State{Accepted, Transferred, Transferred, Transferred, OutForDelivery, DeliveryAttempt, Delivered}
}

// Scope is what a ledger's key is made of.
type Scope string

// Scopes of a key, from too narrow to right.
const (
	ScopeTracking Scope = "tracking"
	ScopeState    Scope = "tracking+state"
	ScopeEvent    Scope = "tracking+state+event number"
)

// Scopes are all scopes, narrowest key first.
func Scopes() []Scope { return []Scope{ScopeTracking, ScopeState, ScopeEvent} }

// Key is the event's key in the scope.
func (s Scope) Key(e Event) string {
	switch s {
	case ScopeTracking:
		return e.Tracking
	case ScopeState:
		return e.Tracking + "/" + string(e.State)
	default:
		return e.Tracking + "/" + string(e.State) + "/" + strconv.Itoa(e.Number)
	}
}

// Source is somebody who may deliver an event again, with the probability that it does.
type Source struct {
	Name        string
	Probability float64
}

// Model are the parameters of a day.
type Model struct {
	Shipments int
	Seed      uint32
	// Sources draw one number per event, in their order; none on a day without failures.
	Sources []Source
}

// Quiet is a day without failures, Window a day whose every event falls into the failure window.
func Quiet() Model { return Model{Shipments: shipments, Seed: seed} }

// Window is the day of Quiet in the failure window.
func Window() Model {
	m := Quiet()
	m.Sources = Sources()
	return m
}

// Sources are those of the failure window.
func Sources() []Source {
	return []Source{{"carrier retry", 0.20}, {"replay on failover", 0.10}, {"redelivery", 0.05}}
}

// Indexes into Sources.
const (
	CarrierRetry = iota
	Replay
	Redelivery
)

// Names of the days.
const (
	DayQuiet  = "failure-free"
	DayWindow = "failure window"
)

// Days are the names of both days.
func Days() []string { return []string{DayQuiet, DayWindow} }

// ModelOf is the model of a day.
func ModelOf(day string) Model {
	if day == DayWindow {
		return Window()
	}

	return Quiet()
}

const (
	shipments = 1250
	seed      = 20260730
)

// generator is a linear congruential generator of 32 bits, so that the same day comes out in any language.
type generator uint32

// next is the next number, 0 ≤ n < 1.
func (g *generator) next() float64 {
	*g = *g*1103515245 + 12345
	return float64(*g) / (1 << 32)
}

// Deliveries calls yield with each event as often as it is delivered and with who delivered it again: -1 for the first time, an
// index into Sources else.
func (m Model) Deliveries(yield func(e Event, source int) bool) {
	g := generator(m.Seed)
	for i := range m.Shipments {
		for n, state := range life() {
			e := Event{Tracking: "sh_" + strconv.Itoa(i), State: state, Number: n}
			if !yield(e, -1) {
				return
			}
			for s, source := range m.Sources {
				if g.next() < source.Probability && !yield(e, s) {
					return
				}
			}
		}
	}
}

// Outcome is what a ledger with one scope made of a day.
type Outcome struct {
	Scope Scope `json:"scope"`
	// Processed deliveries had a new key, Suppressed a known one.
	Processed  int `json:"processed"`
	Suppressed int `json:"suppressed"`
	// Effects happened; Prevented are those that would have happened without a ledger.
	Effects   int `json:"effects"`
	Prevented int `json:"prevented"`
	// Ledger is the number of keys at the end.
	Ledger int `json:"ledger"`
}

// Day is what happened on a day.
type Day struct {
	Deliveries int `json:"deliveries"`
	// Effects is their number without a ledger.
	Effects int `json:"effects"`
	// Sources is how often each source delivered again, in the model's order.
	Sources []int `json:"sources"`
	// InvoiceLines are those billed twice without a ledger.
	InvoiceLines int       `json:"duplicateInvoiceLines"`
	Outcomes     []Outcome `json:"scopes"`
}

// Run lets the day happen to a ledger of each scope and to none.
func (m Model) Run() Day {
	day := Day{Sources: make([]int, len(m.Sources))}
	ledgers := map[Scope]map[string]bool{}
	for _, s := range Scopes() {
		ledgers[s] = map[string]bool{}
		day.Outcomes = append(day.Outcomes, Outcome{Scope: s})
	}
	for e, source := range m.Deliveries {
		day.count(e, source)
		for i := range day.Outcomes {
			o := &day.Outcomes[i]
			o.take(e, ledgers[o.Scope])
		}
	}
	for i := range day.Outcomes {
		o := &day.Outcomes[i]
		o.Prevented, o.Ledger = day.Effects-o.Effects, len(ledgers[o.Scope])
	}
	return day
}

func (d *Day) count(e Event, source int) {
	d.Deliveries++
	d.Effects += e.Effects()
	if source >= 0 {
		d.Sources[source]++
		if e.State == Delivered {
			d.InvoiceLines++
		}
	}
}

func (o *Outcome) take(e Event, ledger map[string]bool) {
	key := o.Scope.Key(e)
	if ledger[key] {
		o.Suppressed++
		return
	}
	ledger[key] = true
	o.Processed++
	o.Effects += e.Effects()
}
