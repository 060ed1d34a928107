package control

import (
	"errors"
	"net/http"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// maxGrant bounds one order, so that a slip of the keyboard is no fortune.
const maxGrant = 1_000_000

// accountView is an account as operators see it.
type accountView struct {
	Account string `json:"account"`
	// Credits are left; null: the account is not limited, since nobody ever granted it any.
	Credits *int64 `json:"credits"`
	// Reserved, Settled and Refunded count rounds of analyses.
	Reserved int64 `json:"reserved"`
	Settled  int64 `json:"settled"`
	Refunded int64 `json:"refunded"`
}

// grantRequest is an order of credits.
type grantRequest struct {
	Key     string `json:"key" doc:"The caller's name of the order."`
	Credits int64  `json:"credits" minimum:"1" maximum:"1000000"`
}

func viewAccount(a store.Account) accountView {
	return accountView{Account: a.ID, Credits: a.Credits, Reserved: a.Reserved, Settled: a.Settled, Refunded: a.Refunded}
}

// account is GET /v1/accounts/{account}.
func (s *Server) account(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("account")
	if protocol.ValidateID(id) != nil {
		return refuse(http.StatusNotFound, protocol.CodeNotFound, "That can't be an account.")
	}
	a, err := s.store.Account(r.Context(), id)
	if err != nil {
		return err
	}

	return answerTagged(w, r, viewAccount(a))
}

// grantCredits is POST /v1/accounts/{account}/grants with {"key","credits"}: 201, or 200 if the same order came before. The key is the
// caller's name of the order; with it, sending again is safe.
func (s *Server) grantCredits(w http.ResponseWriter, r *http.Request) error {
	var request grantRequest
	if err := readJSON(w, r, maxRequestBytes, &request); err != nil {
		return err
	}
	g := store.CreditGrant{Account: r.PathValue("account"), Key: request.Key, Credits: request.Credits}
	switch {
	case protocol.ValidateID(g.Account) != nil:
		return badRequest("account is 1 to 128 characters of A-Z, a-z, 0-9, _ and -, and not a number")
	case protocol.ValidateID(g.Key) != nil:
		return badRequest("key is needed: 1 to 128 characters of A-Z, a-z, 0-9, _ and -, and not a number")
	case g.Credits < 1 || g.Credits > maxGrant:
		return badRequest("credits is 1 to %d", maxGrant)
	}
	a, fresh, err := s.store.GrantCredits(r.Context(), g)
	if errors.Is(err, store.ErrConflict) {
		return refuse(http.StatusConflict, protocol.CodeConflict, "An order with this key and another number of credits came before.")
	}
	if err != nil {
		return err
	}
	status := http.StatusOK
	if fresh {
		status = http.StatusCreated
	}

	return answer(w, status, viewAccount(a))
}
