-- What there is of one lock. ARGV[1]: the owner that asks.
-- The lock's value is ADDED:TIME@OWNER; anything else is somebody's all the same.
local value = redis.call('GET', KEYS[1])
local added, owner
if value then
  added, owner = string.match(value, '^ADDED:([^@]*)@(.*)$')
end
