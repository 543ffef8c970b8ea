/** Values and JSON texts that are dear to read for their size, each of a given number of names and values. */

const times = <T>(count: number, make: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));
const named = (count: number): Record<string, number> =>
  Object.fromEntries(times(count, (i) => [`k${i.toString(36)}`, i]));

/** An expression of `width` arguments at each of `depth` levels, whose ends are no numbers. */
const expressionOf = (width: number, depth: number): unknown =>
  depth === 0 ? "x" : { op: "add", args: times(width, () => expressionOf(width, depth - 1)) };

const conditionsOf = (depth: number): unknown =>
  depth === 0
    ? { type: "event_property", path: "a", op: "in", value: times(20, (i) => i) }
    : { all: times(8, () => conditionsOf(depth - 1)) };

/** By what they are made of. */
export const hostileValues = (parts: number): Record<string, unknown> => ({
  numbers: times(parts, () => 0),
  objects: times(parts / 2, () => ({})),
  pairs: times(parts / 3, (i) => ({ a: i })),
  names: named(parts / 2),
  conditions: times(parts / 3, () => ({ type: "event_property" })),
  expression: expressionOf(8, 5),
  tree: conditionsOf(4),
  text: "a-".repeat(500_000),
});

/** Texts of `bytes` bytes; the parser is slow for some of them. */
export const hostileTexts = (bytes: number): Record<string, string> => {
  const filled = (piece: string): string => piece.repeat(Math.floor((bytes - 8) / piece.length));
  const distinct = (make: (name: string) => string): string => {
    const pieces: string[] = [];
    for (let length = 0, i = 0; length < bytes - 30; i++) {
      const piece = make(i.toString(36));
      pieces.push(piece);
      length += piece.length + 1;
    }
    return pieces.join();
  };
  return {
    brackets: filled("["),
    "empty lists": `[${filled("[],")}0]`,
    "empty objects": `[${filled("{},")}0]`,
    "equal names": `{${filled('"a":0,')}"a":0}`,
    names: `{${distinct((name) => `"${name}":0`)}}`,
    shapes: `[${distinct((name) => `{"${name}":0}`)}]`,
    texts: `[${distinct((name) => `"${name}"`)}]`,
    "a long number": `[${filled("1")}]`,
    "long numbers": `[${filled("1.2345678901234567e-300,")}0]`,
    escapes: `"${filled(String.raw`\u0000`)}"`,
    "escaped texts": `[${filled(String.raw`"\u1234",`)}0]`,
  };
};
