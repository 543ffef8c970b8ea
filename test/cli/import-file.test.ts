import assert from "node:assert/strict";
import * as fc from "fast-check";
import {
  type Item,
  type Line,
  LINE_MAX_BYTES,
  openLines,
  readItem,
  splitLines,
  withKey,
} from "../../src/cli/import-file.ts";
import { temporaryDirectory } from "../support/import/import-target.ts";
import { pluck } from "../support/pluck.ts";

const collect = async (chunks: Buffer[]): Promise<Line[]> => {
  const lines: Line[] = [];
  async function* source() {
    yield* chunks;
  }
  for await (const some of splitLines(source())) lines.push(...some);
  return lines;
};

const cut = (bytes: Buffer, sizes: number[]): Buffer[] => {
  const chunks: Buffer[] = [];
  let start = 0;
  for (const size of [...sizes, bytes.length]) {
    chunks.push(bytes.subarray(start, start + size));
    start += size;
  }
  return chunks;
};

const item = (text: string): Item | undefined =>
  readItem({ number: 7, bytes: Buffer.from(text), isTooLong: false });

describe("reading a file of events", () => {
  it("gives the same lines however the bytes arrive", async () => {
    const text = fc.array(fc.constantFrom("a", "é", "𝄞", "\n", "\r\n", " ", '{"x":1}'), { maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(text, fc.array(fc.nat(7), { maxLength: 40 }), async (parts, sizes) => {
        const whole = parts.join("");
        const lines = await collect(cut(Buffer.from(whole), sizes));
        const expected = whole.split("\n").map((line) => line.replace(/\r$/, ""));
        if (whole.endsWith("\n") || whole === "") expected.pop();
        assert.deepEqual(
          lines.map(({ bytes }) => bytes.toString()),
          expected,
        );
        assert.deepEqual(
          pluck(lines, "number"),
          expected.map((_, index) => index + 1),
        );
      }),
    );
  });

  it("drops a byte order mark and reads a last line without an end", async () => {
    const lines = await collect([Buffer.from("\uFEFF{}\n{}")]);
    assert.deepEqual(
      lines.map(({ bytes }) => bytes.toString()),
      ["{}", "{}"],
    );
  });

  it("keeps no more than its limit of a line that is too long, and goes on after it", async () => {
    const piece = Buffer.alloc(64 * 1024, "x");
    const long = Array.from({ length: 64 }, () => piece);
    const lines = await collect([...long, Buffer.from("\n{}\n")]);
    assert.equal(lines[0]!.isTooLong, true);
    assert.equal(lines[0]!.bytes.length, LINE_MAX_BYTES);
    assert.deepEqual([lines[1]!.number, lines[1]!.isTooLong, lines[1]!.bytes.toString()], [2, false, "{}"]);
  });

  it("says why a line can never be an event", () => {
    assert.match(item('{"a":')!.reason!, /^not valid JSON/);
    for (const text of ["[1]", "null", "3", '"x"']) assert.equal(item(text)!.reason, "not a JSON object");
    const broken = readItem({ number: 1, bytes: Buffer.from([0x7b, 0xff, 0x7d]), isTooLong: false });
    assert.equal(broken!.reason, "not valid UTF-8");
    assert.equal(item("  \t "), undefined);
    assert.equal(item("{}")!.reason, undefined);
  });

  it("adds a key without touching any other byte", () => {
    const text = '{ "n": 12345678901234567890, "d": 1e400 }';
    const sent = withKey(text, "import:x");
    assert.equal(sent, '{"idempotencyKey":"import:x","n": 12345678901234567890, "d": 1e400 }');
    assert.equal(withKey("{ }", "k"), '{"idempotencyKey":"k"}');
  });

  it("knows gzip by its content, whatever the name", async () => {
    const directory = temporaryDirectory();
    try {
      const zipped = directory.file("events.ndjson.gz", "{}\n{}\n");
      const plain = directory.file("plain.ndjson", "{}\n{}\n");
      for (const file of [zipped, plain]) {
        const lines: Line[] = [];
        for await (const some of openLines(file, new AbortController().signal, () => {})) lines.push(...some);
        assert.equal(lines.length, 2, file);
      }
    } finally {
      directory.remove();
    }
  });
});
