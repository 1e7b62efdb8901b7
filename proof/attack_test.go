package proof_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/proof"
)

// Each attack is made of a good proof, which is accepted at the end, so that
// what is refused is the attack.
func TestForgedProofsAreRefused(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{})
	good := l.sign(statement(7))
	header, payload := l.parts(good)
	families := map[string]map[string]string{
		"algorithm": l.algorithms(t, payload), "key": l.keyGames(t, payload), "header": l.headers(header, payload),
		"payload": l.payloads(header, payload), "text": l.texts(good),
	}
	n := 0
	for _, family := range slices.Sorted(maps.Keys(families)) {
		for _, name := range slices.Sorted(maps.Keys(families[family])) {
			n++
			t.Run(family+": "+name, func(t *testing.T) { l.refused(t, families[family][name], proof.ErrInvalid) })
		}
	}
	l.accepted(t, good)
	t.Logf("%d attacks, 0 accepted", n)
}

// with returns a header with the lab's key id and an algorithm.
func (l *lab) with(alg string) string {
	return fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":%q}`, alg, l.key.ID(), proof.Type)
}

// The confusion of algorithms: what the public key makes by itself.
func (l *lab) algorithms(t *testing.T, payload string) map[string]string {
	t.Helper()
	public := l.key.Public()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	none := func(string) []byte { return nil }
	eddsa := func(input string) []byte { return ed25519.Sign(l.private, []byte(input)) }
	mac := func(key []byte) func(string) []byte {
		return func(input string) []byte {
			m := hmac.New(sha256.New, key)
			m.Write([]byte(input))
			return m.Sum(nil)
		}
	}
	attacks := map[string]string{
		"HS256 with the public key":             seal(l.with("HS256"), payload, mac(public)),
		"HS256 with the public key in base64":   seal(l.with("HS256"), payload, mac([]byte(base64.RawURLEncoding.EncodeToString(public)))),
		"HS256 with the public key as DER":      seal(l.with("HS256"), payload, mac(der)),
		"HS256 with the public key as PEM":      seal(l.with("HS256"), payload, mac(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))),
		"HS256 with the empty key":              seal(l.with("HS256"), payload, mac(nil)),
		"HS256 under the name of EdDSA":         seal(l.with("EdDSA"), payload, mac(public)),
		"EdDSA under another algorithm's name":  seal(l.with("HS256"), payload, eddsa),
		"EdDSA under the algorithm of nkeys":    seal(l.with("ed25519-nkey"), payload, eddsa),
		"EdDSA of another case":                 seal(l.with("EDDSA"), payload, eddsa),
		"no algorithm, signed":                  seal(fmt.Sprintf(`{"kid":%q,"typ":%q}`, l.key.ID(), proof.Type), payload, eddsa),
		"an algorithm that is a list":           seal(fmt.Sprintf(`{"alg":["EdDSA"],"kid":%q,"typ":%q}`, l.key.ID(), proof.Type), payload, eddsa),
		"RS256 by a key of the attacker":        seal(l.with("RS256"), payload, signed(t, rsaKey)),
		"ES256 by a key of the attacker":        seal(l.with("ES256"), payload, signed(t, ecKey)),
		"EdDSA by name, no signature":           seal(l.with("EdDSA"), payload, none),
		"EdDSA by name, a signature of zeroes":  seal(l.with("EdDSA"), payload, func(string) []byte { return make([]byte, 64) }),
		"EdDSA by name, of 32 bytes":            seal(l.with("EdDSA"), payload, func(input string) []byte { return eddsa(input)[:32] }),
		"EdDSA, a byte too long":                seal(l.with("EdDSA"), payload, func(input string) []byte { return append(eddsa(input), 0) }),
		"EdDSA, the order added to its scalar":  seal(l.with("EdDSA"), payload, func(input string) []byte { return malleated(eddsa(input)) }),
		"EdDSA with context (RFC 8032, 5.1)":    seal(l.with("EdDSA"), payload, withOptions(t, l.private, &ed25519.Options{Context: "x"})),
		"the signature of another payload":      l.transplanted(),
		"the signature of the payload unsigned": b64(l.with("EdDSA")) + "." + b64(payload) + ".",
	}
	for _, alg := range []string{"none", "None", "NONE", "nOnE", ""} {
		attacks["no signature, alg "+alg] = seal(l.with(alg), payload, none)
		attacks["signed, alg "+alg] = seal(l.with(alg), payload, eddsa)
	}
	return attacks
}

// malleated adds the order of the group to a signature's scalar, which an
// implementation that does not reduce it takes for the same.
func malleated(sig []byte) []byte {
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	scalar := slices.Clone(sig[32:])
	slices.Reverse(scalar)
	sum := new(big.Int).Add(new(big.Int).SetBytes(scalar), order).FillBytes(make([]byte, 32))
	slices.Reverse(sum)
	return append(slices.Clone(sig[:32]), sum...)
}

func signed(t *testing.T, key crypto.Signer) func(string) []byte {
	t.Helper()
	return func(input string) []byte {
		sum := sha256.Sum256([]byte(input))
		sig, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
}

func withOptions(t *testing.T, key ed25519.PrivateKey, opts *ed25519.Options) func(string) []byte {
	t.Helper()
	return func(input string) []byte {
		sig, err := key.Sign(nil, []byte(input), opts)
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
}

// transplanted is a later term with the signature of an earlier one.
func (l *lab) transplanted() string {
	early, late := l.sign(statement(7)), l.sign(statement(8))
	return late[:strings.LastIndex(late, ".")] + early[strings.LastIndex(early, "."):]
}

// Keys that are not the group's, and ids that name none of its keys.
func (l *lab) keyGames(t *testing.T, payload string) map[string]string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign := func(input string) []byte { return ed25519.Sign(private, []byte(input)) }
	header := func(kid, more string) string {
		return fmt.Sprintf(`{"alg":"EdDSA","kid":%s,"typ":%q%s}`, kid, proof.Type, more)
	}
	own, other := fmt.Sprintf("%q", l.key.ID()), fmt.Sprintf("%q", proof.KeyID(public))
	jwk := fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":%q}`, base64.RawURLEncoding.EncodeToString(public))
	attacks := map[string]string{
		"another group's":                      seal(header(other, ""), payload, foreign),
		"another group's, under our id":        seal(header(own, ""), payload, foreign),
		"brought along (jwk)":                  seal(header(other, `,"jwk":`+jwk), payload, foreign),
		"brought along (jwk), under our id":    seal(header(own, `,"jwk":`+jwk), payload, foreign),
		"to be fetched (jku)":                  seal(header(own, `,"jku":"http://127.0.0.1/keys"`), payload, foreign),
		"to be fetched (x5u), with a true one": l.forge(header(own, `,"x5u":"http://127.0.0.1/"`), payload),
		"two ids, ours last":                   seal(header(other, `,"kid":`+own), payload, foreign),
		"two ids, ours first":                  seal(header(own, `,"kid":`+other), payload, foreign),
		"two ids that differ in case":          l.forge(header(own, `,"KID":`+other), payload),
		"two ids, both ours":                   l.forge(header(own, `,"kid":`+own), payload),
		"without an id":                        l.forge(fmt.Sprintf(`{"alg":"EdDSA","typ":%q}`, proof.Type), payload),
	}
	for name, kid := range map[string]string{
		"empty": `""`, "null": `null`, "a number": `0`, "a list": `[` + own + `]`, "an object": `{"kid":` + own + `}`, "a path": `"../../dev/null"`,
		"SQL": `"' OR 1=1 --"`, "with a blank": fmt.Sprintf("%q", l.key.ID()+" "), "cut": fmt.Sprintf("%q", l.key.ID()[:20]),
		"of another case": fmt.Sprintf("%q", strings.ToUpper(l.key.ID())), "long": fmt.Sprintf("%q", strings.Repeat("k", 2000)),
	} {
		attacks["an id that is "+name] = l.forge(header(kid, ""), payload)
	}
	return attacks
}

// Headers that the group's key signed, and that are not a proof's.
func (l *lab) headers(header, payload string) map[string]string {
	add := func(more string) string { return strings.TrimSuffix(header, "}") + more + "}" }
	typ := func(typ string) string { return strings.Replace(header, `"`+proof.Type+`"`, typ, 1) }
	attacks := map[string]string{}
	for name, h := range map[string]string{
		"another type of token":      typ(`"JWT"`),
		"a type of another case":     typ(`"LEADER-PROOF+JWT"`),
		"no type":                    strings.Replace(header, `"typ"`, `"type"`, 1),
		"a demand (crit)":            add(`,"crit":["exp"]`),
		"a payload as it is (b64)":   add(`,"b64":false`),
		"compressed (zip)":           add(`,"zip":"DEF"`),
		"nested (cty)":               add(`,"cty":"JWT"`),
		"two algorithms":             add(`,"alg":"EdDSA"`),
		"two algorithms by case":     add(`,"ALG":"none"`),
		"a list":                     "[" + header + "]",
		"null":                       "null",
		"empty":                      "",
		"two objects":                header + header,
		"cut":                        header[:len(header)-1],
		"a thousand members":         add(strings.Repeat(`,"a":1`, 1000)),
		"deep":                       add(`,"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000)),
		"not UTF-8, in a name":       add(",\"\xff\":1"),
		"followed by something else": header + "x",
		"followed by a bracket":      header + "}",
	} {
		attacks[name] = l.forge(h, payload)
	}
	return attacks
}

// Payloads that the group's key signed, and that state nothing.
func (l *lab) payloads(header, payload string) map[string]string {
	add := func(more string) string { return strings.TrimSuffix(payload, "}") + more + "}" }
	set := func(name, value string) string {
		before, rest, _ := strings.Cut(payload, `"`+name+`":`)
		if rest[0] == '"' {
			_, rest, _ = strings.Cut(rest[1:], `"`)
		} else {
			rest = rest[strings.IndexAny(rest, ",}"):]
		}
		return before + `"` + name + `":` + value + rest
	}
	attacks := map[string]string{}
	for name, p := range map[string]string{
		"another group's":             set("iss", `"other"`),
		"no group's":                  set("iss", `""`),
		"a group that is a list":      set("iss", `["reports"]`),
		"two groups":                  add(`,"iss":"reports"`),
		"two groups, first another's": strings.Replace(payload, `"iss"`, `"iss":"other","iss"`, 1),
		"two terms":                   add(`,"term":"8"`),
		"two terms by case":           add(`,"TERM":"8"`),
		"two terms by another letter": add(`,"ſub":"other"`),
		"two ends":                    add(`,"exp":99999999999`),
		"no end":                      strings.Replace(payload, `"exp"`, `"end"`, 1),
		"an end that is null":         set("exp", "null"),
		"an end that is a string":     set("exp", `"99999999999"`),
		"an end that is negative":     set("exp", "-1"),
		"an end that is too large":    set("exp", "1e300"),
		"an end beyond time":          set("exp", "9223372036854775808"),
		"an end in the far future":    set("exp", "90000000000"),
		"no beginning":                strings.Replace(payload, `"iat"`, `"begin"`, 1),
		"a beginning after the end":   set("iat", "90000000000"),
		"a beginning of zero":         set("iat", "0"),
		"a condition (nbf)":           add(`,"nbf":1`),
		"a term that is a number":     set("term", "7"),
		"a term that is signed":       set("term", `"+8"`),
		"a term with leading zeros":   set("term", `"008"`),
		"a term of zero":              set("term", `"0"`),
		"a term in hexadecimal":       set("term", `"0x8"`),
		"a term that is too large":    set("term", `"18446744073709551616"`),
		"a term that none reaches":    set("term", `"9007199254740993"`),
		"a term that is negative":     set("term", `"-1"`),
		"no digest":                   set("digest", `""`),
		"a digest that is cut":        set("digest", `"abcd"`),
		"a digest in capitals":        set("digest", `"`+strings.ToUpper(fence.Digest("token"))+`"`),
		"no leader":                   set("sub", `""`),
		"a long leader":               set("sub", `"`+strings.Repeat("x", 300)+`"`),
		"an audience that is nobody":  add(`,"aud":""`),
		"an audience":                 add(`,"aud":"billing"`),
		"an audience that is null":    add(`,"aud":null`),
		"an audience of two":          add(`,"aud":["billing","other"]`),
		"an audience of none":         add(`,"aud":[]`),
		"null":                        "null",
		"empty":                       "",
		"a list":                      "[" + payload + "]",
		"a string":                    `"` + "x" + `"`,
		"an object of nothing":        "{}",
		"two objects":                 payload + payload,
		"followed by a bracket":       payload + "}",
		"many members":                add(manyMembers(40)),
	} {
		attacks[name] = l.forge(header, p)
	}
	return attacks
}

func manyMembers(n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, `,"x%d":1`, i)
	}
	return s.String()
}

// Texts that are a good proof but for its form.
func (l *lab) texts(good string) map[string]string {
	parts := strings.Split(good, ".")
	attacks := map[string]string{
		"two parts":               parts[0] + "." + parts[1],
		"four parts":              good + "." + parts[2],
		"a point at the end":      good + ".",
		"a blank at the end":      good + " ",
		"a line break at the end": good + "\n",
		"a line break inside":     parts[0] + "." + parts[1] + ".\n" + parts[2],
		"padded":                  good + "==",
		"a scheme before it":      "Bearer " + good,
		"oversized":               good + strings.Repeat("A", proof.MaxSize),
		"oversized and signed":    l.oversized(),
		"megabytes":               strings.Repeat(good, 10000),
		"points alone":            strings.Repeat(".", 4000),
		"JSON serialization":      fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, parts[0], parts[1], parts[2]),
		"bits behind the last":    good[:len(good)-1] + nextLetter(good[len(good)-1]),
		"the header of base64":    strings.ReplaceAll(strings.ReplaceAll(good, "-", "+"), "_", "/") + "+/",
		"NUL":                     "\x00",
		"another proof appended":  good + good,
		"the payload left out":    parts[0] + ".." + parts[2],
		"the header left out":     "." + parts[1] + "." + parts[2],
		"header and payload swap": parts[1] + "." + parts[0] + "." + parts[2],
	}
	for i := range len(good) - 1 {
		attacks[fmt.Sprintf("cut after %d", i+1)] = good[:i+1]
	}
	for i := range len(good) {
		if good[i] != '.' {
			attacks[fmt.Sprintf("letter %d changed", i)] = good[:i] + nextLetter(good[i]) + good[i+1:]
		}
	}
	return attacks
}

// oversized is a proof of the right form and signature that is too long.
func (l *lab) oversized() string {
	header, payload := l.parts(l.sign(statement(7)))
	return l.forge(header, strings.TrimSuffix(payload, "}")+`,"more":"`+strings.Repeat("x", proof.MaxSize)+`"}`)
}

// nextLetter returns another letter of base64url: with an end bit set that
// decodes to nothing, where the letter is the last of a proof.
func nextLetter(c byte) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(letters[(strings.IndexByte(letters, c)+1)%len(letters)])
}

func TestEmptyTextIsNotAProof(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{})
	l.refused(t, "", proof.ErrNoProof)
}

// The end is exp − Skew by the verifier's clock, to the millisecond.
func TestReplayAfterItsTimeIsRefused(t *testing.T) {
	for _, skew := range []time.Duration{-1, 0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, proof.VerifierOptions{Skew: skew})
			s := statement(7)
			text := l.sign(s)
			margin := map[time.Duration]time.Duration{-1: 0, 0: proof.DefaultSkew, time.Second: time.Second}[skew]
			time.Sleep(time.Until(s.Until) - margin - time.Millisecond)
			l.accepted(t, text)
			time.Sleep(time.Millisecond)
			for range 3 {
				l.refused(t, text, proof.ErrExpired)
				time.Sleep(time.Hour)
			}
		})
	}
}

// Whichever clock is ahead, by Skew at most, no proof is accepted when its
// window has closed.
func TestSkewTakesFromAProofAndNeverAddsToIt(t *testing.T) {
	const skew = time.Second
	for ahead := -skew; ahead <= skew; ahead += skew / 4 {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, proof.VerifierOptions{Skew: skew})
			s := statement(7)
			window := s.Until // by the true time, which is the verifier's here
			s.Issued, s.Until = s.Issued.Add(ahead), s.Until.Add(ahead)
			text := l.sign(s)
			accepted := 0
			for range 400 {
				if _, err := l.Verify(text); err == nil {
					accepted++
					if !time.Now().Before(window) {
						t.Fatalf("accepted %v after the window, with a clock that is ahead by %v", time.Since(window), ahead)
					}
				}
				time.Sleep(50 * time.Millisecond)
			}
			if want := int((window.Sub(s.Issued.Add(-ahead)) - skew + ahead) / (50 * time.Millisecond)); accepted != want {
				t.Errorf("accepted %d times with a clock that is ahead by %v, want %d", accepted, ahead, want)
			}
		})
	}
}

// A signer's clock may be ahead by Skew and no more.
func TestProofFromTheFutureIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, proof.VerifierOptions{Skew: time.Second})
		s := statement(7)
		s.Issued, s.Until = s.Issued.Add(1001*time.Millisecond), s.Until.Add(1001*time.Millisecond)
		text := l.sign(s)
		l.refused(t, text, proof.ErrNotYet)
		time.Sleep(time.Millisecond)
		l.accepted(t, text)
	})
}

func TestProofThatLastsTooLongIsRefused(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{MaxLifetime: 10 * time.Second})
	s := statement(7)
	l.accepted(t, l.sign(s))
	s.Until = s.Until.Add(time.Millisecond)
	l.refused(t, l.sign(s), proof.ErrInvalid)
}

// A deposed leader's proof may be good by its time.
func TestDeposedLeadersProofIsRefusedOnceItsSuccessorWasSeen(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{})
	old, next := l.sign(statement(7)), l.sign(statement(8))
	l.accepted(t, old)
	l.accepted(t, next)
	for range 100 {
		l.refused(t, old, fence.ErrStale)
	}
	l.accepted(t, next)
	twin := statement(8)
	twin.Digest = fence.Digest("another token")
	l.refused(t, l.sign(twin), fence.ErrStale)
	if _, err := l.Verify(old); err != nil {
		t.Errorf("Verify remembers: %v", err)
	}
}

// Terms are remembered by group: one group's terms do not affect another's.
func TestTermsOfAnotherGroupChangeNothing(t *testing.T) {
	l, other := newLab(t, proof.VerifierOptions{}), newLab(t, proof.VerifierOptions{})
	other.accepted(t, other.sign(statement(100)))
	l.refused(t, other.sign(statement(100)), proof.ErrInvalid)
	l.accepted(t, l.sign(statement(7)))
	if err := l.SetKeys(setOf(t, l.key.Public(), other.key.Public())); err != nil {
		t.Fatal(err)
	}
	// Even where one set has both keys, the proof names the group.
	s := statement(100)
	s.Group = "other"
	l.refused(t, other.sign(s), proof.ErrInvalid)
}

func TestProofIsForItsAudienceAlone(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{Audience: "billing"})
	s := statement(7)
	l.refused(t, l.sign(s), proof.ErrInvalid)
	s.Audience = "ledger"
	l.refused(t, l.sign(s), proof.ErrInvalid)
	s.Audience = "billing"
	if got := l.accepted(t, l.sign(s)); got.Audience != "billing" {
		t.Errorf("%+v", got)
	}
	// As a signer in another language may write it.
	header, payload := l.parts(l.sign(s))
	l.accepted(t, l.forge(header, strings.Replace(payload, `"billing"`, `["billing"]`, 1)))
	l.refused(t, l.forge(header, strings.Replace(payload, `"billing"`, `["billing","ledger"]`, 1)), proof.ErrInvalid)
}

func FuzzVerify(f *testing.F) {
	l := newLab(f, proof.VerifierOptions{})
	good := l.sign(proof.Statement{
		Group: "reports", Leader: "host-1", Term: 7, Digest: fence.Digest("token"), Issued: time.Now(), Until: time.Now().Add(time.Hour),
	})
	header, payload := l.parts(good)
	f.Add(good)
	for _, family := range []map[string]string{l.headers(header, payload), l.payloads(header, payload)} {
		for _, text := range family {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := l.Verify(text)
		// Nothing but what the key signed is accepted, in that very form: not
		// even the same with another encoding.
		if err == nil && text != good {
			t.Errorf("accepted, and nobody signed it: %v", s)
		}
		if err != nil && s != (proof.Statement{}) {
			t.Errorf("%v, and it states %v", err, s)
		}
	})
}

// Payloads that the key did sign: any payload at all.
func FuzzSignedPayload(f *testing.F) {
	l := newLab(f, proof.VerifierOptions{Skew: -1})
	header, payload := l.parts(l.sign(statement(7)))
	f.Add(payload)
	for _, text := range l.payloads(header, payload) {
		_, p := l.parts(text)
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		s, err := l.Verify(l.forge(header, payload))
		if err != nil {
			return
		}
		again, err := l.key.Sign(s)
		if err != nil {
			t.Fatalf("%v was accepted, and cannot be signed: %v", s, err)
		}
		if same, err := l.Verify(again); err != nil || same != s {
			t.Errorf("%v became %v: %v", s, same, err)
		}
	})
}
