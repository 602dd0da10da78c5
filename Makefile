# What a newcomer types. Everything else is a script in tools/ or a cargo command.
.PHONY: all demo dist docs performance test test-bare test-dist test-vm fuzz crash bench-interfaces bench-tcp bench-tdm bench-guests lint install install-c uninstall clean

PREFIX ?= /usr/local
# Where cargo puts what it builds; tools/dist builds for a target of its own.
RELEASE ?= target/release
# What figures name as the commit that was measured.
export BYWAY_COMMIT := $(shell git describe --always --dirty --abbrev=8 2>/dev/null)

# The command, the library for C, the library that `byway tdm run` loads into programs, and the command of experiments.
all:
	cargo build --release $(CARGOFLAGS) -p byway-cli -p byway-c -p byway-tdm-interpose -p byway-lab

# An image, the real Unicode records by every transfer method, a query by the device and by the host, the papers' workloads,
# report.html. Under 5 minutes.
demo:
	tools/demo.sh

# Every test, the lints, the models, a bounded fuzz run. Ends with "N passed, N failed".
test:
	tools/test.sh

# All that runs in guests: the device under stock Linux drivers, the library on real NVMe nodes. tests/vm/README.md.
test-vm:
	tests/vm/run.sh --release --all

# Packages in target/dist: Debian packages, wheels, the static command, a container image, crates. packaging/README.md.
dist:
	tools/dist.sh

# The packages tried on bare Debian systems, by apt, pip and the crates' own projects. As root, after `make dist`.
test-dist:
	tools/dist/test.sh

# The two commands of the README, and all blocks of README and tutorials, on a bare Debian system. As root.
test-bare:
	tools/bare.sh

# The documentation site in target/site, from docs: links checked, and its search tried in a browser.
docs:
	tools/docs.sh

# docs/performance and its figures, from benches/results and benches/targets.toml. `make lint` fails while they are not what those make.
performance:
	tools/performance.py write

# New inputs for every decoder and for the device, a minute a target. Ends with counts; BYWAY_FUZZ_SECONDS=600 for longer.
fuzz:
	tools/fuzz.sh

# A thousand kills at random instants, bits flipped all over an image, a file system that fails at each operation.
crash:
	cargo run -p byway-crash-tests --release -- --kills 1000 --seed 20261121 --json > benches/results/crash.json
	target/release/byway-crash-tests flips 4 > benches/results/flips.json
	target/release/byway-crash-tests faults > benches/results/faults.json

# Every interface beside its own client, by turns: fio's engines, loops written by hand, and no device at all. Needs fio and its
# source; DEVICE=/dev/zram0 names a block device to be overwritten.
bench-interfaces: all
	cargo build --release -p byway-benches
	target/release/nil --json benches/results/nil.json
	target/release/opening $(if $(DEVICE),--device $(DEVICE)) --json benches/results/opening.json
	integrations/fio/build.sh target/release/libbyway_c.a target/release/byway-fio.so
	integrations/fio/measure.sh target/release/byway-fio.so
	target/release/beside_fio target/release/byway-fio.so $(if $(DEVICE),--device $(DEVICE)) --json benches/results/fio.json
	target/release/interfaces $(if $(DEVICE),--device $(DEVICE)) --json benches/results/interfaces.json

# Our initiator and our target over NVMe/TCP, beside a bare socket. Two processors with nothing else on them.
bench-tcp:
	cargo build --release -p byway-benches --bin over_tcp
	target/release/over_tcp --json benches/results/tcp.json

# Unmodified programs with their files absorbed into device memory, beside the file system alone: Valkey, Redis, RocksDB and SQLite,
# which are fetched where they can be had and left out where not.
bench-tdm: export PATH := $(CURDIR)/target/programs/bin:$(PATH)
bench-tdm:
	bash -c '. tools/need.sh && . tools/programs.sh && have_programs'
	cargo build --release -p byway-tdm-interpose
	cargo build --release -p byway-benches --bin under_tdm
	target/release/under_tdm --only calls-,writes- --json benches/results/tdm-calls.json \
		--region 'emu:byway-bench-calls?size=1G' --log-bytes 16777216
	target/release/under_tdm --only valkey-,redis-,rocksdb,sqlite --json benches/results/tdm.json
	target/release/under_tdm --only valkey-64-c50,valkey-1024-c50 --sync-us 1000,3000 --rounds 3 --json benches/results/tdm-disks.json
	target/release/under_tdm --only read-,scan-,mixed- --json benches/results/tdm-loads.json \
		--region 'emu:byway-bench-loads?size=256M&profile=cmm-h&cache=64M&clock=paced'

# Our device in a guest, beside QEMU's own.
bench-guests:
	benches/guests.sh > target/guests.json
	mv target/guests.json benches/results/guests.json

# Formatting, clippy, layers of crates, links of pages, dependencies (deny.toml), spelling, and private words against the allow-list that only shrinks.
lint:
	tools/lint.sh

# The commands, their man pages and completions; the library of `byway tdm run`, where the command looks for it; the library
# for C, its header, its man pages and what pkg-config needs.
install: all install-c
	install -Dm755 $(RELEASE)/byway $(DESTDIR)$(PREFIX)/bin/byway
	install -Dm755 $(RELEASE)/byway-lab $(DESTDIR)$(PREFIX)/bin/byway-lab
	install -Dm755 $(RELEASE)/libbyway_tdm.so $(DESTDIR)$(PREFIX)/lib/byway/libbyway_tdm.so
	$(RELEASE)/byway gen man --dir $(DESTDIR)$(PREFIX)/share/man/man1
	$(RELEASE)/byway-lab gen man --dir $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(RELEASE)/byway gen completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/byway
	$(RELEASE)/byway gen completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_byway
	$(RELEASE)/byway gen completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/byway.fish
	$(RELEASE)/byway-lab gen completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/byway-lab
	$(RELEASE)/byway-lab gen completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_byway-lab
	$(RELEASE)/byway-lab gen completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/byway-lab.fish

install-c: all
	LDFLAGS=-Wl,--strip-debug bindings/c/link.sh $(RELEASE)/libbyway_c.a $(RELEASE)/c $(PREFIX)
	install -Dm644 bindings/c/include/byway.h $(DESTDIR)$(PREFIX)/include/byway.h
	install -Dm644 $(RELEASE)/c/byway.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/byway.pc
	cp -P $(RELEASE)/c/libbyway.so* $(DESTDIR)$(PREFIX)/lib
	strip --strip-debug -o $(DESTDIR)$(PREFIX)/lib/libbyway.a $(RELEASE)/c/libbyway.a
	bindings/c/man.sh $(DESTDIR)$(PREFIX)/share/man/man3

# What install put there, and nothing else.
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/byway $(DESTDIR)$(PREFIX)/bin/byway-lab $(DESTDIR)$(PREFIX)/include/byway.h $(DESTDIR)$(PREFIX)/lib/pkgconfig/byway.pc
	rm -f $(DESTDIR)$(PREFIX)/lib/libbyway.a $(DESTDIR)$(PREFIX)/lib/libbyway.so $(DESTDIR)$(PREFIX)/lib/libbyway.so.[0-9]*
	rm -f $(DESTDIR)$(PREFIX)/lib/byway/libbyway_tdm.so
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/byway.1 $(DESTDIR)$(PREFIX)/share/man/man1/byway-*.1
	rm -f $(DESTDIR)$(PREFIX)/share/man/man3/byway.3 $(DESTDIR)$(PREFIX)/share/man/man3/byway_*.3
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/byway $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_byway
	rm -f $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/byway.fish
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/byway-lab $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_byway-lab
	rm -f $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/byway-lab.fish
	rmdir --ignore-fail-on-non-empty $(DESTDIR)$(PREFIX)/lib/byway

clean:
	cargo clean
