#!/bin/sh
# man.sh FOLDER: the manual pages of byway.h, section 3: byway(3) with what holds for all of it, a page for each kind of handle,
# and a link to its page for each function. They are the header's own words.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)
mkdir -p "$1"
awk -v folder="$1" -v version="$version" '
BEGIN {
	about["byway"] = "one API over every interface by which commands reach an SSD"
	about["byway_error"] = "what failed, who failed, and why"
	about["byway_device"] = "devices: what there are, opening them, what they say of themselves, admin commands"
	about["byway_admin"] = "admin commands that go on by themselves"
	about["byway_image"] = "images: made, checked, repaired, resized, copied"
	about["byway_buffer"] = "memory that commands move"
	about["byway_queue"] = "queues: commands on their way, and their completions"
	about["byway_nvm"] = "synchronous calls to a namespace of blocks"
	about["byway_kv"] = "synchronous calls to a namespace of keys and values"
	for (page in about) head(page)
}
function head(page) {
	file = folder "/" page ".3"
	printf ".TH %s 3 \"\" \"Byway %s\" \"Byway\"\n.nh\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", page, version, page, about[page] > file
	printf ".nf\n#include <byway.h>\n.fi\n.PP\nLink with \\fI\\-lbyway\\fP.\n.SH DESCRIPTION\n" > file
}
function words(text) {
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	sub(/^[.'"'"']/, "\\\\\\&&", text)
	while (match(text, /`[^`]*`/))
		text = substr(text, 1, RSTART - 1) "\\fI" substr(text, RSTART + 1, RLENGTH - 2) "\\fP" substr(text, RSTART + RLENGTH)
	return text
}
function page_of(name) {
	if (name ~ /^BYWAY_VERSION|^byway_version/) return "byway"
	if (name ~ /error|origin|retry/) return "byway_error"
	if (name ~ /^byway_(create|check|resize|snapshot|media|remedy|finding|progress)/) return "byway_image"
	if (name ~ /^byway_kv_stats/) return "byway_device"
	if (name ~ /^byway_admin/) return "byway_admin"
	if (name ~ /^byway_buffer/) return "byway_buffer"
	if (name ~ /^byway_nvm/) return "byway_nvm"
	if (name ~ /^byway_kv|^byway_key|^byway_pair|^byway_value|^byway_unlisted/) return "byway_kv"
	if (name ~ /^byway_range/) return "byway_queue"
	if (name ~ /queue|^byway_c|^byway_opcode|^BYWAY_/ && name !~ /close$|capabilities/) return "byway_queue"
	return "byway_device"
}
# What a piece of code declares: the name before a bracket, else the last word.
function name_of(code,   text) {
	text = code
	sub(/\n.*/, "", text)
	if (text ~ /^typedef .*\(\*/) { sub(/.*\(\*/, "", text); sub(/\).*/, "", text); return text }
	if (text ~ /^#define/) { split(text, part, " "); return part[2] }
	if (text ~ /^typedef/) { sub(/ *[{;].*/, "", text); sub(/.* /, "", text); return text }
	sub(/\(.*/, "", text); sub(/.*[ *]/, "", text)
	return text
}
function flush_entry(   name, file) {
	if (code == "" || doc == "") { code = doc = ""; return }
	name = name_of(code)
	file = folder "/" page_of(name) ".3"
	printf ".SS %s\n.nf\n%s\n.fi\n.PP\n%s\n", name, words(code), words(doc) > file
	if (code ~ /^[a-z].*\(/ && code !~ /^typedef/ && !(name in about))
		printf ".so man3/%s.3\n", page_of(name) > (folder "/" name ".3")
	code = doc = ""
}
# The comment at the head of the file is the overview.
!headed && /^\/\*$/ { heading = 1; next }
heading && /^ \*\/$/ { heading = 0; headed = 1; next }
heading {
	sub(/^ \*( +|$)/, "")
	if (/^- /) { sub(/^- /, ""); print ".TP\n\\(bu" > (folder "/byway.3") }
	else if ($0 == "") { print ".PP" > (folder "/byway.3"); next }
	print words($0) > (folder "/byway.3")
	next
}
/^\/\*\*/ { flush_entry(); documenting = 1; next }
documenting && /^ \*\// { documenting = 0; next }
documenting { sub(/^ \* ?/, ""); doc = doc == "" ? $0 : doc "\n" $0; next }
/^$/ { if (!within) flush_entry(); next }
/^#(if|end|incl)|^extern "C"|^}  \/\/|^#define BYWAY_VERSION/ { next }
doc != "" { code = code == "" ? $0 : code "\n" $0; within = /\{/ || (within && !/^}/) }
END {
	flush_entry()
	for (page in about) {
		printf ".SH SEE ALSO\n.BR byway (3)" > (folder "/" page ".3")
		for (other in about) if (other != "byway" && other != page) printf ",\n.BR %s (3)", other > (folder "/" page ".3")
		printf "\n" > (folder "/" page ".3")
	}
}
' "$here/include/byway.h"
