module github.com/fencepost/fencepost/e2e/bench

go 1.26.0

require github.com/fencepost/fencepost v0.0.0

replace github.com/fencepost/fencepost => ../..
