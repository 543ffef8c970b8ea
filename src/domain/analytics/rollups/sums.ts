/**
 * Sums by place, as bytes: for each place where there is something, in ascending order, how much larger its
 * number is than that of the one before, and the sum there. Numbers are of as many bytes as they need, as in
 * varints.ts, and up to 2^53 - 1.
 */

const EMPTY = new Uint8Array(0);

/** Reads the next number of a document: `at` is where. */
let at = 0;
const next = (bytes: Uint8Array): number => {
  let number = 0;
  for (let factor = 1; ; factor *= 128) {
    const byte = bytes[at++]!;
    number += (byte & 127) * factor;
    if (byte < 128) return number;
  }
};

const push = (bytes: number[], number: number): void => {
  let rest = number;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  bytes.push(rest);
};

/** Calls `take` for each place of a document. It reads no documents itself. */
export const eachSum = (document: Uint8Array, take: (place: number, sum: number) => void): void => {
  at = 0;
  for (let place = 0; at < document.length;) {
    place += next(document);
    take(place, next(document));
  }
};

/** What all places of a document add up to. */
export const totalOf = (document: Uint8Array): number => {
  let total = 0;
  eachSum(document, (_, sum) => void (total += sum));
  return total;
};

/** Returns a document with changes of places, which are added; without those of which nothing is left. */
export const editedSums = (
  document: Uint8Array | undefined,
  changes: ReadonlyMap<number, number>,
): Uint8Array => {
  const bytes: number[] = [];
  const ordered = [...changes].toSorted(([a], [b]) => a - b);
  let [last, done] = [0, 0];
  const put = (place: number, sum: number): void => {
    if (sum <= 0) return;
    push(bytes, place - last);
    push(bytes, sum);
    last = place;
  };
  eachSum(document ?? EMPTY, (place, sum) => {
    for (; done < ordered.length && ordered[done]![0] < place; done++) put(...ordered[done]!);
    const isChanged = done < ordered.length && ordered[done]![0] === place;
    put(place, isChanged ? sum + ordered[done++]![1] : sum);
  });
  for (; done < ordered.length; done++) put(...ordered[done]!);
  return Uint8Array.from(bytes);
};
