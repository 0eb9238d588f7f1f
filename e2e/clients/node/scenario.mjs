// The scenario of the client matrix for Node clients: `scenario.mjs CLIENT BOOTSTRAP PREFIX`.
//
// CLIENT names a module beside this file, `CLIENT.mjs`, which exports `open(bootstrap)`: the adapter (model.mjs says what
// it offers). The steps are the same for every client in every language (../README.md). Prints one line a step; exits 0
// only if none failed.
import { createHash } from 'node:crypto'
import { EARLIEST, LATEST, PARTITIONS, STEP_TIMEOUT_MS, check, equal, shorten, until } from './model.mjs'
import { describeGroup, group } from './group.mjs'

class Scenario {
  constructor(client, prefix) {
    this.client = client
    this.topic = prefix
    this.groups = [] // each has a topic of its own name
    this.expected = Array.from({ length: PARTITIONS }, () => []) // what the topic must hold, in order of offsets
    this.clock = Date.now() - 3_000_000 // every record has a time of its own, so a search by timestamp has one answer
    this.failed = false
  }

  record(partition, key, value, headers = []) {
    this.clock += 1000
    const bytes = b => (typeof b === 'string' ? Buffer.from(b) : b)
    return { partition, key: bytes(key), value: bytes(value), headers: headers.map(([k, v]) => [k, bytes(v)]), timestamp: this.clock }
  }

  async send(topic, records, { acks = -1, codec = 'none', idempotent = false } = {}) {
    const producer = await this.client.producer(acks, codec, idempotent)
    await producer.send(topic, records)
    await producer.close()
  }

  // Sends, then reads back from the first new offset, so that a fault shows in the step that made it.
  async produce(records, options) {
    const starts = new Map(records.map(r => [r.partition, this.expected[r.partition].length]))
    await this.send(this.topic, records, options)
    for (const r of records) this.expected[r.partition].push(r)
    await this.readAndCompare(starts)
  }

  // Reads from `starts` to the expected end of those partitions; offsets must be dense, every byte equal.
  async readAndCompare(starts) {
    const position = new Map(starts)
    const reader = await this.client.reader(this.topic, starts)
    try {
      await until('reading back', async () => {
        for (const { offset, record } of await reader.poll(200)) {
          const { partition } = record
          check(offset === position.get(partition), `partition ${partition}: offset ${offset}, not ${position.get(partition)}`)
          const want = this.expected[partition][offset]
          check(want, `more than was produced: ${shorten(record)}`)
          check(equal(record, want), `at offset ${offset}: got ${shorten(record)}, produced ${shorten(want)}`)
          position.set(partition, offset + 1)
        }
        return [...position].every(([p, at]) => at === this.expected[p].length)
      })
    } finally {
      await reader.close()
    }
  }

  // Waits until all names are in a listing, or none is.
  async listed(want, list, names) {
    await until(`listed ${want}: ${names}`, async () => {
      const have = new Set(await list())
      return names.every(name => have.has(name) === want)
    })
  }

  async createTopic() {
    await this.client.createTopic(this.topic, PARTITIONS)
    await this.listed(true, () => this.client.topics(), [this.topic])
  }

  async produceAcks(acks) {
    await this.produce(
      Array.from({ length: 30 }, (_, i) => this.record(i % PARTITIONS, `key-${i}`, `acks ${acks} value ${i}`)),
      { acks }
    )
  }

  async codec(codec) {
    await this.produce(
      Array.from({ length: 200 }, (_, i) => this.record(1, `k${i}`, `${codec} ${i} `.repeat(50))),
      { codec }
    )
  }

  async headers() {
    await this.produce([
      this.record(0, 'one', 'v', [['a', '1']]),
      this.record(0, 'several', 'v', [
        ['empty', ''],
        ['bytes', Buffer.from(Array.from({ length: 256 }, (_, i) => i))]
      ])
    ])
  }

  async headerNull() {
    await this.produce([
      this.record(0, 'null header', 'v', [
        ['null', null],
        ['empty', '']
      ])
    ])
  }

  async headerSameKey() {
    await this.produce([
      this.record(0, 'same key', 'v', [
        ['x', 'first'],
        ['x', 'second'],
        ['x', 'first']
      ])
    ])
  }

  async nulls() {
    await this.produce([
      this.record(2, null, 'null key'),
      this.record(2, 'null value', null),
      this.record(2, 'empty value', ''),
      this.record(2, '', 'empty key')
    ])
  }

  async nullRecord() {
    await this.produce([this.record(2, null, null)])
  }

  async large() {
    const noise = seed => {
      const blocks = Array.from({ length: 28_800 }, (_, i) => createHash('sha256').update(`${seed} ${i}`).digest())
      return Buffer.concat(blocks) // 28,800 blocks of 32 bytes are 900 KiB
    }
    await this.produce(Array.from({ length: PARTITIONS }, (_, p) => this.record(p, 'large', noise(p))))
  }

  async idempotent() {
    await this.produce(
      Array.from({ length: 300 }, (_, i) => this.record(i % PARTITIONS, `i${i}`, `idempotent ${i}`)),
      { idempotent: true }
    )
  }

  // Looks up offsets at a time and compares them.
  async expectOffsets(at, want) {
    const found = await this.client.offsets(this.topic, at)
    for (let p = 0; p < PARTITIONS; p++) {
      check(found.get(p) === want(p), `offsets at ${at}: got ${found.get(p)} in partition ${p}, expected ${want(p)}`)
    }
    return found
  }

  async consumeStart() {
    await this.readAndCompare(await this.expectOffsets(EARLIEST, () => 0))
  }

  async consumeEnd() {
    const ends = await this.expectOffsets(LATEST, p => this.expected[p].length)
    const reader = await this.client.reader(this.topic, ends)
    check((await reader.poll(200)).length === 0, 'records past the end')
    await reader.close()
    await this.produce(Array.from({ length: PARTITIONS }, (_, p) => this.record(p, 'end', 'the only one')))
  }

  async consumeTimestamp() {
    // A time between two records of partition 1, in the middle of its compressed batches.
    const middle = this.expected[1][this.expected[1].length >> 1].timestamp - 500
    await this.readAndCompare(await this.expectOffsets(middle, p => this.expected[p].findIndex(r => r.timestamp >= middle)))
  }

  async listGroups() {
    await this.listed(true, () => this.client.groups(), this.groups)
  }

  async deleteGroup() {
    for (const name of this.groups) await this.client.deleteGroup(name)
    await this.listed(false, () => this.client.groups(), this.groups)
  }

  async deleteTopic() {
    const topics = [this.topic, ...this.groups]
    for (const topic of topics) await this.client.deleteTopic(topic)
    await this.listed(false, () => this.client.topics(), topics)
  }

  async step(name, action) {
    if (this.client.cannot[name]) {
      console.log(`step ${name} n/a ${this.client.cannot[name]}`)
      return
    }
    const began = Date.now()
    let timer
    try {
      const late = new Promise((resolve, reject) => {
        timer = setTimeout(() => reject(new Error('hangs')), STEP_TIMEOUT_MS + 5000)
      })
      await Promise.race([action(), late])
      console.log(`step ${name} ok ${((Date.now() - began) / 1000).toFixed(2)} s`)
    } catch (error) {
      this.failed = true
      console.log(`step ${name} FAIL ${error.name}: ${error.message}`.replaceAll('\n', ' '))
    } finally {
      clearTimeout(timer)
    }
  }

  async run() {
    await this.step('create-topic', () => this.createTopic())
    // acks=0 last: a broker may still be learning of a new topic, and what it refuses then nobody sends again.
    for (const [name, acks] of [
      ['all', -1],
      ['1', 1],
      ['0', 0]
    ])
      await this.step(`produce-acks-${name}`, () => this.produceAcks(acks))
    for (const codec of ['none', 'gzip', 'snappy', 'lz4', 'zstd']) await this.step(`codec-${codec}`, () => this.codec(codec))
    await this.step('headers', () => this.headers())
    await this.step('header-null', () => this.headerNull())
    await this.step('header-same-key', () => this.headerSameKey())
    await this.step('nulls', () => this.nulls())
    await this.step('null-record', () => this.nullRecord())
    await this.step('large', () => this.large())
    await this.step('idempotent', () => this.idempotent())
    await this.step('consume-start', () => this.consumeStart())
    await this.step('consume-end', () => this.consumeEnd())
    await this.step('consume-timestamp', () => this.consumeTimestamp())
    await this.step('group-eager', () => group(this, 'eager'))
    await this.step('group-cooperative', () => group(this, 'cooperative'))
    await this.step('list-groups', () => this.listGroups())
    await this.step('describe-group', () => describeGroup(this))
    await this.step('delete-group', () => this.deleteGroup())
    await this.step('delete-topic', () => this.deleteTopic())
    return !this.failed
  }
}

const [name, bootstrap, prefix] = process.argv.slice(2)
const { open } = await import(`./${name}.mjs`)
const passed = await new Scenario(await open(bootstrap), prefix).run()
process.exit(passed ? 0 : 1) // a client's open sockets and timers must not keep the process alive
