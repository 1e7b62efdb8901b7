// Package doctor is leader doctor: it examines whatever elections depend on,
// and says what to change. It writes nothing.
package doctor
