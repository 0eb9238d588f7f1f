// What scenario.mjs and the adapters of the clients agree on.
//
// A record is { partition, key, value, headers, timestamp }: keys and values Buffers or null, headers a list of
// [string, Buffer or null], the timestamp in ms. An adapter has
//   cannot                            the steps that the client has no way to do: { name: reason }
//   createTopic(name, partitions)     deleteTopic(name)     topics() -> names
//   producer(acks, codec, idempotent) -> { send(topic, records): resolves when all are acknowledged, close() }
//   offsets(topic, at)                -> Map partition => offset; `at` is EARLIEST, LATEST or a timestamp in ms
//   reader(topic, offsets)            -> { poll(ms) -> [{ offset, record }], close() }
//   member(group, topic, assignor)    -> a reader with assignment() -> partitions, and commit(): what was polled so far
//   groups() -> names                 describeGroup(name) -> { state, members }     deleteGroup(name)
export const EARLIEST = -2
export const LATEST = -1
export const PARTITIONS = 3
export const REPLICAS = Number(process.env.REPLICAS ?? 1)
export const STEP_TIMEOUT_MS = 15_000

export const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

export function check(condition, what) {
  if (!condition) throw new Error(what)
}

// Calls `condition` until it gives something true.
export async function until(what, condition) {
  for (const deadline = Date.now() + STEP_TIMEOUT_MS; Date.now() < deadline; await sleep(20)) {
    if (await condition()) return
  }
  throw new Error(`${what}: not within ${STEP_TIMEOUT_MS / 1000} s`)
}

const same = (a, b) => (a === null || b === null ? a === b : a.equals(b))

export function equal(a, b) {
  return (
    a.partition === b.partition &&
    a.timestamp === b.timestamp &&
    same(a.key, b.key) &&
    same(a.value, b.value) &&
    a.headers.length === b.headers.length &&
    a.headers.every(([key, value], i) => key === b.headers[i][0] && same(value, b.headers[i][1]))
  )
}

export function shorten({ partition, key, value, headers, timestamp }) {
  const start = value === null ? null : `${value.subarray(0, 24)} (${value.length} bytes)`
  return `${partition} key=${key} value=${start} headers=${headers} ts=${timestamp}`
}

// A queue between what a client calls back and what the scenario polls.
export class Inbox {
  constructor() {
    this.items = []
    this.error = null
  }

  push(item) {
    this.items.push(item)
  }

  fail(error) {
    this.error = error
  }

  async poll(ms) {
    for (const deadline = Date.now() + ms; this.items.length === 0 && !this.error && Date.now() < deadline;) await sleep(5)
    if (this.error) throw this.error
    return this.items.splice(0)
  }
}
