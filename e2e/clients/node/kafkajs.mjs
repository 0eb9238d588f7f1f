// kafkajs, with kafkajs-snappy; it has no LZ4 and Zstandard of its own and takes any codec that one registers.
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { lz4Compress, lz4Decompress } from '@platformatic/wasm-utils'
import kafkajs from 'kafkajs'
import SnappyCodec from 'kafkajs-snappy'
import { EARLIEST, Inbox, LATEST, REPLICAS } from './model.mjs'

const { CompressionTypes, CompressionCodecs, Kafka, logLevel } = kafkajs
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4Compress(encoder.buffer),
  decompress: async buffer => lz4Decompress(buffer)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => promisify(zlib.zstdCompress)(encoder.buffer),
  decompress: promisify(zlib.zstdDecompress)
})
const CODECS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }

// kafkajs takes headers as an object; a key that comes several times has a list.
function toHeaders(headers) {
  const object = {}
  for (const [key, value] of headers) object[key] = key in object ? [object[key], value].flat() : value
  return object
}
const fromHeaders = object => Object.entries(object ?? {}).flatMap(([key, value]) => [value].flat().map(v => [key, v]))

class Reader extends Inbox {
  constructor(consumer, topic) {
    super()
    this.consumer = consumer
    this.topic = topic
    this.owned = []
    this.next = new Map()
    this.joined = new Promise(resolve => {
      consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
        this.owned = payload.memberAssignment[topic] ?? []
        resolve()
      })
    })
    consumer.on(consumer.events.REBALANCING, () => {
      this.owned = []
    })
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      if (!payload.restart) this.fail(payload.error)
    })
  }

  async start(from) {
    await this.consumer.connect()
    await this.consumer.subscribe({ topics: [this.topic], fromBeginning: true })
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message: { offset, key, value, headers, timestamp } }) => {
        // Between run() and seek() a few records from the beginning may come.
        if (Number(offset) < (from?.get(partition) ?? (from ? Infinity : 0))) return
        this.next.set(partition, Number(offset) + 1)
        this.push({
          offset: Number(offset),
          record: { partition, key, value, headers: fromHeaders(headers), timestamp: Number(timestamp) }
        })
      }
    })
    if (from) await this.joined // run() may be done before, and seek() wants a group
    for (const [partition, offset] of from ?? []) this.consumer.seek({ topic: this.topic, partition, offset: String(offset) })
    return this
  }

  assignment() {
    return this.owned
  }

  async commit() {
    await this.consumer.commitOffsets(
      [...this.next].map(([partition, offset]) => ({ topic: this.topic, partition, offset: String(offset) }))
    )
    this.next.clear()
  }

  async close() {
    await this.consumer.disconnect()
  }
}

export async function open(bootstrap) {
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } })
  const admin = kafka.admin()
  await admin.connect()
  let readers = 0
  return {
    cannot: {
      'header-null': 'the encoder wants a value for every header',
      'group-cooperative': 'no cooperative assigner'
    },
    createTopic: (topic, numPartitions) => admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: REPLICAS }] }),
    deleteTopic: topic => admin.deleteTopics({ topics: [topic] }),
    topics: () => admin.listTopics(),
    async producer(acks, codec, idempotent) {
      const producer = kafka.producer({ idempotent, allowAutoTopicCreation: false })
      await producer.connect()
      return {
        send: (topic, records) =>
          producer.send({
            topic,
            acks,
            compression: CompressionTypes[CODECS[codec]],
            messages: records.map(r => ({ ...r, timestamp: String(r.timestamp), headers: toHeaders(r.headers) }))
          }),
        close: () => producer.disconnect()
      }
    },
    async offsets(topic, at) {
      const found = at < 0 ? await admin.fetchTopicOffsets(topic) : await admin.fetchTopicOffsetsByTimestamp(topic, at)
      return new Map(found.map(o => [o.partition, Number({ [EARLIEST]: o.low, [LATEST]: o.high }[at] ?? o.offset)]))
    },
    // kafkajs reads in groups only, so each reader has a group, which commits nothing and goes with it.
    async reader(topic, offsets) {
      const groupId = `${topic}-reader-${readers++}`
      const reader = await new Reader(kafka.consumer({ groupId, maxWaitTimeInMs: 100 }), topic).start(offsets)
      reader.close = async () => {
        await reader.consumer.disconnect()
        await admin.deleteGroups([groupId])
      }
      return reader
    },
    member: (groupId, topic) =>
      new Reader(kafka.consumer({ groupId, maxWaitTimeInMs: 100, heartbeatInterval: 300, sessionTimeout: 10_000 }), topic).start(),
    groups: async () => (await admin.listGroups()).groups.map(g => g.groupId),
    async describeGroup(name) {
      const [described] = (await admin.describeGroups([name])).groups
      return { state: described.state, members: described.members.length }
    },
    deleteGroup: name => admin.deleteGroups([name])
  }
}
