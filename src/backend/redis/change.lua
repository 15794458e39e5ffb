-- Changes a lock's owner and end. ARGV[1]: the present owner. ARGV[2]: the new owner. ARGV[3]: the milliseconds that
-- the lock stays held from now on; 0 frees it. Answers 1, also if a repeated change finds its work done, or 0 if
-- another owner holds the lock or it is free.
local holder = owner or value
if holder ~= ARGV[1] or is_over then
  return holder == ARGV[2] and not is_over and 1 or 0
end
if ARGV[3] == '0' then
  redis.call('DEL', KEYS[1])
  return 1
end
-- A value that is not in our form stays as it is unless the owner changes.
local to = value
if ARGV[2] ~= ARGV[1] or is_ahead then
  to = 'ADDED:' .. iso(now) .. '@' .. ARGV[2]
end
-- A server without memory refuses a script's first write if that one may need memory, but no later write.
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[1], to, 'PX', ARGV[3])
return 1
