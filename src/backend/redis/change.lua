-- ARGV[1]: the owner whose lock it is. ARGV[2]: the one whose it is to be. ARGV[3]: for how long from now on, in milliseconds;
-- 0 frees it. Answers 1, also where that has been done before, or 0 if the lock is another's or nobody's.
local holder = owner or value
if holder ~= ARGV[1] then
  return holder == ARGV[2] and 1 or 0
end
if ARGV[3] == '0' then
  redis.call('DEL', KEYS[1])
  return 1
end
-- What is not of our form stays as it is unless it changes hands.
local to = value
if ARGV[2] ~= ARGV[1] then
  to = 'ADDED:' .. iso(now) .. '@' .. ARGV[2]
end
-- A server without memory refuses a script's first write if it is one that could need some, but no later one.
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[1], to, 'PX', ARGV[3])
return 1
