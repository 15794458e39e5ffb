-- Removes what is left of a free lock, whose key is gone or was kept by a clock that was ahead: its records, KEYS[2], and its
-- token, KEYS[3]. The marks of takings that were given up stay, and expire by themselves. Answers {0} if an owner holds the
-- lock, {2} to be asked again, or {1, 1 if there was a token, the number of records}.
if value and not is_over then
  return {0}
end
-- The next token is the time in milliseconds, and has to be later than this one. One that is far ahead was drawn before the
-- clock was set back.
local last = tonumber(redis.pcall('GET', KEYS[3]))
if last and last >= now and last < now + 1000 then
  return {2}
end
if value then
  redis.call('DEL', KEYS[1])
end
return {1, redis.call('DEL', KEYS[3]), redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1)}
