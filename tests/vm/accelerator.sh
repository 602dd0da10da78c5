# Sourced by run.sh: what runs the processors of guests. KVM where a guest comes up under it, QEMU's translator elsewhere:
# a machine may have /dev/kvm, and a kernel of its own kind that stock guests do not start under.

# Sets `accelerator` for $test and $kernel: found once while a machine is up, for each kernel of the harness.
find_accelerator() {
    local known said translator
    translator=tcg,thread=$(header translator multi)
    case ${BYWAY_VM_ACCELERATOR:-} in
        kvm) accelerator=kvm; return ;;
        tcg) accelerator=$translator; return ;;
    esac
    accelerator=$translator
    [ -w /dev/kvm ] || return 0
    known=$guests/accelerator-$kernel
    said="$(cat "$guests/stamp" /proc/sys/kernel/random/boot_id | tr '\n' ' ')"
    if [ "$(sed -n 1p "$known" 2>/dev/null)" != "$said" ]; then
        comes_up_under_kvm 2> /dev/null && accelerator=kvm
        # Where the harness is only read, it is found each time.
        printf '%s\n' "$said" "$accelerator" 2>/dev/null > "$known" || true
        return 0
    fi
    accelerator=$(sed -n 2p "$known")
}

# Whether a guest that does nothing comes to its end, in twenty seconds.
comes_up_under_kvm() (
    test=nothing boot=1 accelerator=kvm
    log=$logs/vm-kvm-$kernel.log
    prepare_work
    echo exit > "$work/share/run.sh"
    describe_machine > "$log" 2>&1
    QEMU_MODULE_DIR=$guests/root/usr/lib/x86_64-linux-gnu/qemu \
        timeout --signal=KILL 20 "${machine[@]}" < /dev/null >> "$log" 2>&1
    rm -rf "$work"
    tr -d '\r' < "$log" | grep -qa '^GUEST-EXIT 0'
)

# The processor that guests see under an accelerator.
processor_of() {
    if [ "$1" = kvm ]; then echo host; else echo max; fi
}
