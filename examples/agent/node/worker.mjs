// Works while it leads, and prints a line of JSON whenever its trust changes.
//
//     leader agent --dev
//     node worker.mjs http://127.0.0.1:9467 reports host-1
import { setTimeout as sleep } from 'node:timers/promises'
import { stand } from './leader_agent.mjs'

const [agent, group, name, ...settings] = process.argv.slice(2)
const options = Object.fromEntries(settings.map(s => s.split('=')).map(([key, value]) => [key, Number(value)]))
const now = () => Number(process.hrtime.bigint()) / 1e9
const say = line => console.log(JSON.stringify({ name, ...line }))

let ends = false
const candidate = await stand(agent, group, name, { ...options, token: process.env.LEADER_AGENT_TOKEN })
process.on('SIGTERM', () => { ends = true })
say({ stands: group })
const ended = setInterval(async () => {
  if (!ends) return
  clearInterval(ended)
  await sleep(50) // the step that is under way
  await candidate.close()
  process.exit(0)
}, 10)
for await (const term of candidate.terms()) {
  let last = 0
  while (term.trusted() && !ends) {
    const at = now()
    const until = term.until / 1e3
    if (until > last) say({ term: term.number, at, until })
    last = until
    await sleep(20) // one step of work
  }
  say({ term: term.number, stopped: now() })
  if (ends) break
}
