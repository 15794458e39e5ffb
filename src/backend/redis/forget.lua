-- The last part of FORGET, after lock.lua: removes what is left of a free lock, whose key is gone or stayed because a clock
-- was ahead: its records and its token. The marks of acquisitions that were undone stay, and expire by themselves. Uses:
-- common.lua's now; lock.lua's lock_key, value, is_over.
-- Answers {0} if an owner holds the lock, {2} to be asked again, or {1, 1 if there was a token, the number of records}.
local history_key, token_key = KEYS[2], KEYS[3]
if value and not is_over then
  return {0}
end
-- The next token is the time in milliseconds, and has to be later than this one. One that is far ahead was drawn before the
-- clock was set back.
local last = tonumber(redis.pcall('GET', token_key))
if last and last >= now and last < now + 1000 then
  return {2}
end
if value then
  redis.call('DEL', lock_key)
end
return {1, redis.call('DEL', token_key), redis.call('ZREMRANGEBYRANK', history_key, 0, -1)}
