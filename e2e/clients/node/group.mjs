// The steps about consumer groups.
import { PARTITIONS, check, shorten, until } from './model.mjs'

class GroupRun {
  constructor(scenario, name) {
    this.scenario = scenario
    this.name = name // of the group and of its topic
    this.serial = 0
  }

  // Produces `count` records over all partitions; gives their values, for collect.
  async send(count) {
    const values = Array.from({ length: count }, (_, i) => `${this.name} ${this.serial + i}`)
    this.serial += count
    await this.scenario.send(
      this.name,
      values.map((value, i) => this.scenario.record(i % PARTITIONS, null, value))
    )
    return values
  }

  // Polls the members until all these values have come, each of them once.
  async collect(members, values) {
    const left = new Set(values)
    await until(`${values.length} records for ${members.length} members`, async () => {
      for (const member of members) {
        for (const { record } of await member.poll(50)) {
          check(left.delete(String(record.value)), `came twice, or is before the committed offset: ${shorten(record)}`)
        }
      }
      return left.size === 0
    })
  }

  // Waits until each member owns partitions and together they own each one once.
  async settle(members) {
    await until(`${members.length} members own the partitions`, async () => {
      for (const member of members) check((await member.poll(50)).length === 0, 'a record, though all are read and committed')
      const owned = members.map(member => member.assignment())
      return owned.every(partitions => partitions.length > 0) && String(owned.flat().sort()) === '0,1,2'
    })
  }
}

// Two members share the partitions, one leaves, a later member resumes at the committed offsets.
export async function group(scenario, assignor) {
  const { client } = scenario
  const run = new GroupRun(scenario, `${scenario.topic}-${assignor}`)
  await client.createTopic(run.name, PARTITIONS)
  scenario.groups.push(run.name)
  const join = () => client.member(run.name, run.name, assignor)

  const [first, second] = await Promise.all([join(), join()])
  await run.settle([first, second])
  await run.collect([first, second], await run.send(30))
  await first.commit()
  await second.commit()
  await second.close()
  await run.settle([first])
  await run.collect([first], await run.send(30))
  await first.commit()
  const uncommitted = await run.send(9)
  await run.collect([first], uncommitted)
  await first.close()
  const third = await join()
  await run.collect([third], uncommitted)
  await third.commit()
  await third.close()
}

export async function describeGroup(scenario) {
  const { client } = scenario
  const name = scenario.groups[0]
  const described = (state, members) =>
    until(`described as ${state} with ${members} members`, async () => {
      const now = await client.describeGroup(name)
      return now.state.toUpperCase() === state && now.members === members
    })
  await described('EMPTY', 0)
  const only = await client.member(name, name, 'eager')
  await new GroupRun(scenario, name).settle([only])
  await described('STABLE', 1)
  await only.close()
  await described('EMPTY', 0)
}
