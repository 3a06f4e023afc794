# Thin by intent: the work is in scripts/ and in `cargo xtask`.

.PHONY: help demo test ci build deb deb-arm64 bench pictures

help:
	@echo 'make demo    build Weir, show a pgbench run through it beside the same run through PgBouncer'
	@echo '             and direct, and a pool that finds its size'
	@echo 'make test    run every test, also those against real servers and drivers'
	@echo 'make ci      everything that CI checks'
	@echo 'make build   build target/release/weir and target/release/weir-lab'
	@echo 'make deb     build Debian packages in target/deb'
	@echo 'make deb-arm64  build them for arm64, on amd64'
	@echo 'make pictures  take the pictures of the README again'
	@echo 'make bench   compare Weir with other poolers on this machine (about 90 minutes; weir bench --help)'
	@echo
	@echo 'demo and test install what is missing (Debian 12); they ask no questions.'

demo:
	@bash scripts/demo.sh

test:
	@bash scripts/test.sh

ci:
	@bash .ci/run

build:
	@bash scripts/build.sh

deb:
	@bash scripts/deb.sh

deb-arm64:
	@bash scripts/arm64.sh

bench: build
	$${CARGO_TARGET_DIR:-target}/release/weir bench run quick

pictures:
	@bash scripts/pictures.sh
