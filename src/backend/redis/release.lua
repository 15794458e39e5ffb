-- ARGV[2]: the owner marked as ended. ARGV[3]: for how long after the taking the lock stays held, in milliseconds.
-- Answers 1, or 0 if the lock is not ours.
if value and owner == ARGV[2] then
  return 1
end
if owner ~= ARGV[1] then
  return 0
end
-- No longer than that from now on, since the clock may have been set back after the taking.
local rest = math.min(parse(added) or now, now) + ARGV[3] - now
if rest > 0 then
  redis.call('SET', KEYS[1], 'ADDED:' .. added .. '@' .. ARGV[2], 'PX', whole(rest))
else
  redis.call('DEL', KEYS[1])
end
return 1
