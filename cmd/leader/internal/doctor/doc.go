// Package doctor is leader doctor: it examines whatever elections depend on,
// and reports what to change. It writes nothing.
//
// A finding is a failure where elections lose their promises or do not work at
// all, a warning where they do as long as nothing else goes wrong, and an
// information where there is nothing to change, or nothing was seen: what could
// not be examined is never called healthy.
//
// Each examination has the time of --timeout for itself, so that one that gets
// no answer takes nothing from the others.
package doctor
