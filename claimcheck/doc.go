// Package claimcheck is the worker's way to everything that a claim check stands for: it redeems the claim at the
// control plane, renews and releases it, downloads the clips, uploads the artifact and posts the result.
//
// Three kinds of peer, three degrees of trust. The control plane is named by the operator; every request to it is
// signed. Storage and callback are named by URLs in the claim; they are held to allow-lists, and the address that a
// name resolves to is checked when it is dialled. No redirect is ever followed, from anyone: a signed or presigned
// request is meant for one place.
//
// Every wait has a bound, every body a limit, every answer a class: what another attempt can't heal is permanent,
// all else is retried here within its bound and then left, retryable, to the queue. No error, log or metric of
// this package holds a URL's query, a signature or a secret.
package claimcheck
