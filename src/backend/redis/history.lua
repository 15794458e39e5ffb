-- A part after lock.lua (in CLOSE, after common.lua): the history, a sorted set with a record of each acquisition, as JSON,
-- by its token. Neither it nor the key of the last token expires: a clock that was set back would draw a forgotten token
-- again, and a policy that evicts expiring keys leaves them alone. An error on the keys beside the lock must not prevent
-- an acquisition or a release: `failure` is the first such error.
-- Gives the later parts: history_key, recorder, recorded, failure, was_held, try, find.
local history_key = KEYS[2]
-- The owner whose record is looked for.
local recorder = ARGV[1]
-- Whether the call has the keys beside the lock.
local recorded = history_key ~= nil
local failure
-- What close.lua answers: release.lua sets it to 1 if the caller held the lock until this release, or until an earlier one,
-- which is repeated.
local was_held = 0

-- Runs a command on a key beside the lock.
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    failure = failure or answer.err
    return nil
  end
  return answer
end

-- Finds the owner's record among those from the rank `first` on: -1 for the newest, which it mostly is, 0 for all.
local function find(first)
  local field = '"owner":' .. cjson.encode(recorder) .. ','
  local records = try('ZRANGE', history_key, first, -1) or {}
  for rank = #records, 1, -1 do
    if string.find(records[rank], field, 1, true) then return records[rank] end
  end
  return nil
end
