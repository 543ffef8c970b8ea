import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { PlayerMessage } from "../../src/domain/kernel/topics.ts";
import { isBroken, OrderedStream, type StreamPage } from "../../src/rooms/ordered-stream.ts";
import { eventually } from "../support/eventually.ts";
import { cases } from "../support/properties.ts";

const aLine = (seq: number): PlayerMessage => ({
  seq,
  id: `id-${seq}`,
  type: "t",
  data: {},
  at: "2026-01-01T00:00:00.000Z",
});

type Stream = {
  stream: OrderedStream<PlayerMessage, StreamPage<PlayerMessage>>;
  heard: (number | string)[];
  /** Commits lines up to `seq`. */
  commit(seq: number): void;
  reads: number[];
  /** The next read fails. */
  breakRead(): void;
  /** Lines up to `seq` are no longer kept. */
  prune(seq: number): void;
};

const aStream = (start = 0): Stream => {
  let newest = start;
  let kept = 0;
  let isBroke = false;
  const heard: (number | string)[] = [];
  const reads: number[] = [];
  const stream = new OrderedStream<PlayerMessage, StreamPage<PlayerMessage>>({
    read: async (after) => {
      reads.push(after);
      await new Promise(setImmediate);
      if (isBroke) {
        isBroke = false;
        throw new Error("no database");
      }
      const messages: PlayerMessage[] = [];
      for (let seq = Math.max(after, kept) + 1; seq <= newest; seq++) messages.push(aLine(seq));
      return { seq: newest, messages: messages.slice(0, 500) };
    },
    deliver: ({ seq }) => void heard.push(seq),
    jump: ({ seq }) => void heard.push(`jump ${seq}`),
    later: (delayMs, run) => void setTimeout(run, delayMs / 20),
    onError: () => undefined,
  });
  const commit = (seq: number) => void (newest = Math.max(newest, seq));
  return { stream, heard, commit, reads, breakRead: () => (isBroke = true), prune: (seq) => (kept = seq) };
};

describe("the order of a player's stream", () => {
  it("delivers lines in order as they come, without asking the database", () => {
    const { stream, heard, reads } = aStream();
    stream.start(0);
    stream.receive([aLine(1), aLine(2)]);
    stream.receive([aLine(3)]);
    assert.deepEqual(heard, [1, 2, 3]);
    assert.deepEqual(reads, []);
  });

  it("reads what it is told of and heard nothing of", async () => {
    const { stream, heard, commit } = aStream();
    stream.start(0);
    commit(2);
    stream.expect(2);
    await eventually(() => heard.length === 2);
    assert.deepEqual(heard, [1, 2]);
  });

  it("tries again after a read that failed", async () => {
    const { stream, heard, commit, breakRead } = aStream();
    stream.start(0);
    commit(2);
    breakRead();
    stream.receive([aLine(2)]);
    await eventually(() => heard.length === 2);
    assert.deepEqual(heard, [1, 2]);
  });

  it("jumps when the lines are gone", async () => {
    const { stream, heard, commit, prune } = aStream();
    stream.start(0);
    commit(9);
    prune(6);
    stream.receive([aLine(9)]);
    await eventually(() => heard.length > 0);
    stream.receive([aLine(10)]);
    assert.deepEqual(heard, ["jump 9", 10]);
  });

  it("jumps when more than 500 lines were missed", async () => {
    const { stream, heard, commit } = aStream();
    stream.start(0);
    commit(501);
    stream.expect(501);
    await eventually(() => heard.length > 0);
    assert.deepEqual(heard, ["jump 501"]);
  });

  it("delivers every line once and in order, whatever publishing loses, repeats or reorders", async () => {
    const lines = fc.integer({ min: 1, max: 40 });
    await fc.assert(
      fc.asyncProperty(
        lines,
        fc.array(fc.array(lines, { maxLength: 6 }), { maxLength: 30 }),
        async (last, published) => {
          const { stream, heard, commit } = aStream();
          stream.start(0);
          for (const batch of published) {
            const known = batch.filter((seq) => seq <= last);
            commit(Math.max(0, ...known));
            stream.receive(known.map(aLine));
            if (batch.length % 2 === 0) await new Promise(setImmediate);
          }
          commit(last);
          stream.expect(last);
          await eventually(() => stream.head === last);
          assert.deepEqual(
            heard,
            Array.from({ length: last }, (_, i) => i + 1),
          );
        },
      ),
      { numRuns: cases(100) },
    );
  });

  it("knows a page that does not continue where the client is", () => {
    assert.equal(isBroken({ seq: 3, messages: [aLine(2), aLine(3)] }, 1), false);
    assert.equal(isBroken({ seq: 3, messages: [] }, 3), false);
    assert.equal(isBroken({ seq: 3, messages: [aLine(3)] }, 1), true);
    assert.equal(isBroken({ seq: 3, messages: [] }, 1), true);
    assert.equal(isBroken({ seq: 3, messages: [] }, 9), true);
    assert.equal(isBroken({ seq: 502, messages: [aLine(2)] }, 1), true);
  });
});
