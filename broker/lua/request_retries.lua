-- Request retries of dead groups. ARGV: group and entry of its dead letter, for each; skips those that are gone.
-- returns the groups that were requested; the learner issues them (issue.lua).
local asked = {}
for i = 1, #ARGV, 2 do
  if header('dead', ARGV[i + 1], 'group') == ARGV[i] then
    redis.call('HSET', RETRIES, ARGV[i], ARGV[i + 1])
    asked[#asked + 1] = ARGV[i]
  end
end
return asked
