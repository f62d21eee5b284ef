// pion/sctp as a rival, a helper of the program `rival`.
module anabranch/rivals/pion

go 1.24.0

require (
	github.com/pion/logging v0.2.4
	github.com/pion/sctp v1.12.0
)

require (
	github.com/pion/randutil v0.1.0 // indirect
	github.com/pion/transport/v5 v5.1.1 // indirect
)

// pion/sctp 1.12.0 names transport/v5 5.1.1, which the module proxy cannot deliver; it builds with 5.0.0.
replace github.com/pion/transport/v5 => github.com/pion/transport/v5 v5.0.0
