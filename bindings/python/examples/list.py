"""Lists the devices that this machine has; none is opened."""

import byway

found = byway.scan()
for one in found:
    print(f"{one.uri:20} {one.kind:10} {one.size_bytes or 0} bytes{', ' + one.model if one.model else ''}")
print(len(found), "devices")
