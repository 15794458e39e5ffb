-- Reads the lock. ARGV[1]: the owner that makes the call. The lock's value is ADDED:TIME@OWNER; any other value
-- counts as another owner's.
local value = redis.call('GET', KEYS[1])
local added, owner
if value then
  added, owner = string.match(value, '^ADDED:([^@]*)@(.*)$')
end
