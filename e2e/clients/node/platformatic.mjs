// @platformatic/kafka.
import { Admin, Consumer, Producer } from '@platformatic/kafka'
import { Inbox, PARTITIONS, REPLICAS } from './model.mjs'

const text = b => (b === null || b === undefined ? null : b)

class Reader extends Inbox {
  constructor(consumer, topic) {
    super()
    this.consumer = consumer
    this.topic = topic
    this.next = new Map()
  }

  async start(how) {
    this.stream = await this.consumer.consume({ topics: [this.topic], autocommit: false, maxWaitTime: 100, ...how })
    this.stream.on('error', error => this.fail(error))
    this.stream.on('data', m => {
      const record = {
        partition: m.partition,
        key: text(m.key),
        value: text(m.value),
        headers: m.headerEntries.map(([k, v]) => [String(k), text(v)]),
        timestamp: Number(m.timestamp)
      }
      this.next.set(m.partition, { topic: this.topic, partition: m.partition, offset: m.offset + 1n, leaderEpoch: m.leaderEpoch })
      this.push({ offset: Number(m.offset), record })
    })
    return this
  }

  assignment() {
    return this.consumer.assignments?.find(a => a.topic === this.topic)?.partitions ?? []
  }

  async commit() {
    if (this.next.size > 0) await this.consumer.commit({ offsets: [...this.next.values()] })
    this.next.clear()
  }

  async close() {
    await this.consumer.close(true)
  }
}

export async function open(bootstrap) {
  const base = { clientId: 'scenario', bootstrapBrokers: [bootstrap], retries: 10, retryDelay: 100 }
  const admin = new Admin(base)
  let readers = 0
  const unused = () => `scenario-reader-${process.pid}-${readers++}`
  return {
    cannot: { 'group-cooperative': 'no cooperative assigner' },
    createTopic: (topic, partitions) => admin.createTopics({ topics: [topic], partitions, replicas: REPLICAS }),
    deleteTopic: topic => admin.deleteTopics({ topics: [topic] }),
    topics: () => admin.listTopics(),
    async producer(acks, codec, idempotent) {
      const producer = new Producer({ ...base, autocreateTopics: false })
      return {
        send: (topic, records) =>
          producer.send({
            acks,
            compression: codec,
            idempotent,
            messages: records.map(r => ({
              topic,
              partition: r.partition,
              key: r.key,
              value: r.value,
              timestamp: BigInt(r.timestamp),
              headers: new Map(r.headers.map(([k, v]) => [Buffer.from(k), v]))
            }))
          }),
        close: () => producer.close()
      }
    },
    async offsets(topic, at) {
      const consumer = new Consumer({ ...base, groupId: unused() })
      const found = (await consumer.listOffsets({ topics: [topic], timestamp: BigInt(at) })).get(topic)
      await consumer.close(true)
      return new Map(found.map((offset, partition) => [partition, Number(offset)]))
    },
    reader(topic, offsets) {
      const at = Array.from({ length: PARTITIONS }, (_, partition) => ({ topic, partition, offset: BigInt(offsets.get(partition) ?? 0) }))
      const reader = new Reader(new Consumer({ ...base, groupId: unused() }), topic)
      // It reads every partition; what was not asked for is left out.
      const push = reader.push.bind(reader)
      reader.push = item => {
        if (offsets.has(item.record.partition)) push(item)
      }
      return reader.start({ mode: 'manual', offsets: at })
    },
    member: (groupId, topic) =>
      new Reader(new Consumer({ ...base, groupId, heartbeatInterval: 300, sessionTimeout: 10_000, rebalanceTimeout: 10_000 }), topic).start(
        { mode: 'committed', fallbackMode: 'earliest' }
      ),
    groups: async () => [...(await admin.listGroups()).keys()],
    async describeGroup(name) {
      const described = (await admin.describeGroups({ groups: [name] })).get(name)
      return { state: described.state, members: described.members.size }
    },
    deleteGroup: name => admin.deleteGroups({ groups: [name] })
  }
}
