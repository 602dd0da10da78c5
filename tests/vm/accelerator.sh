# Sourced by run.sh: what runs the processors of guests. KVM where a guest comes up under it, QEMU's translator elsewhere:
# a machine may have /dev/kvm, and a kernel of its own kind that stock guests do not start under.

# Sets `accelerator` for $test and $kernel. How a guest is translated is its test's to say.
find_accelerator() {
    case ${BYWAY_VM_ACCELERATOR:-$(found_accelerator)} in
        kvm) accelerator=kvm ;;
        *) accelerator=tcg,thread=$(header translator multi) ;;
    esac
}

# kvm or tcg for $kernel: found once while a machine is up, for each kernel of the harness.
found_accelerator() {
    local known=$guests/accelerator-$kernel said found=tcg
    if [ ! -w /dev/kvm ]; then echo tcg; return; fi
    said="$(cat "$guests/stamp" /proc/sys/kernel/random/boot_id | tr '\n' ' ')"
    if [ "$(sed -n 1p "$known" 2>/dev/null)" = "$said" ]; then sed -n 2p "$known"; return; fi
    comes_up_under_kvm > /dev/null 2>&1 && found=kvm
    # Where the harness is only read, it is found each time.
    printf '%s\n' "$said" "$found" 2>/dev/null > "$known" || true
    echo "$found"
}

# Whether a guest that does nothing ends within 20 seconds.
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
