import { type RawBuilder, sql } from "kysely";
import type { Steps } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { DAY_MS, eachTime } from "./documents.ts";
import { eachPlayerOf, type JudgedPlayer } from "./each-player.ts";
import type { Rolled } from "./rolled.ts";

/** Bits of an event that are marks; its time is above them. */
const MARKS = 2 ** 14;

/** Which events a question reads one by one, within `[fromMs, untilMs)`, and what each is marked with. */
export type TimesQuestion = {
  fromMs: number;
  untilMs: number;
  /** By type; undefined: of every type that is not named. */
  marks: ReadonlyMap<string, number>;
  otherMarks?: number | undefined;
  /** Types whose events before `fromMs` are read too: as if all were at `fromMs - 1`. */
  before?: readonly string[] | undefined;
};

/**
 * The events of a player by time, and of equal times by marks. The arrays may be longer than `size`, and are
 * the next player's then.
 */
export type RolledTimes = {
  who: JudgedPlayer["who"];
  firstMs: number;
  size: number;
  at: Float64Array;
  marks: Uint16Array;
};

/** Of so many numbers, sorting them by hand is faster. */
const FEW = 48;

const sortFirst = (numbers: Float64Array, size: number): void => {
  if (size > FEW) {
    const own = numbers.subarray(0, size);
    own.sort();
    return;
  }
  for (let i = 1; i < size; i++) {
    const number = numbers[i]!;
    let place = i;
    for (; place > 0 && numbers[place - 1]! > number; place--) numbers[place] = numbers[place - 1]!;
    numbers[place] = number;
  }
};

/** The events of one player after the other. */
class OwnTimes {
  at = new Float64Array(1_024);
  marks = new Uint16Array(1_024);

  expand(
    { fromMs }: TimesQuestion,
    { who, firstMs, size: keyCount, keys, counts }: JudgedPlayer,
  ): RolledTimes {
    let size = 0;
    for (let i = 0; i < keyCount; i++) size += counts[i]!;
    if (size > this.at.length) {
      this.at = new Float64Array(2 * size);
      this.marks = new Uint16Array(2 * size);
    }
    const { at, marks } = this;
    let place = 0;
    for (let i = 0; i < keyCount; i++) for (let n = 0; n < counts[i]!; n++) at[place++] = keys[i]!;
    sortFirst(at, size);
    for (let i = 0; i < size; i++) {
      const time = Math.floor(at[i]! / MARKS);
      marks[i] = at[i]! - time * MARKS;
      at[i] = fromMs + time;
    }
    return { who, firstMs, size, at, marks };
  }
}

const whichOf = ({ fromMs, untilMs, marks, otherMarks, before = [] }: TimesQuestion): RawBuilder<unknown> => {
  const listed = (types: readonly string[]) =>
    sql`event_type in (select json_array_elements_text(${JSON.stringify(types)}::json))`;
  const wanted = otherMarks === undefined ? sql`${listed([...marks.keys()])}` : sql`true`;
  const [first, last] = [Math.floor(fromMs / DAY_MS), Math.ceil(untilMs / DAY_MS)];
  return sql`event_type <> '' and day <= ${last}::int
    and ((day >= ${first}::int and ${wanted}) or (day <= ${first}::int and ${listed(before)}))`;
};

/** Judges all players with an event before `asOf`, by the times of their events. */
export const eachRolledTimes = (
  work: Work,
  rolled: Rolled,
  question: TimesQuestion,
  judge: (player: RolledTimes) => Steps<void> | void,
): Promise<void> => {
  const { fromMs, marks, otherMarks, before } = question;
  const untilMs = Math.min(question.untilMs, rolled.frame.asOfMs);
  const isBefore = new Set(before);
  const own = new OwnTimes();
  const keyOf = (type: string, ms: number): number | undefined => {
    const mark = marks.get(type) ?? otherMarks;
    if (mark === undefined || ms >= untilMs) return undefined;
    if (ms >= fromMs) return (ms - fromMs) * MARKS + mark;
    return isBefore.has(type) ? mark - MARKS : undefined;
  };
  return eachPlayerOf(work, rolled, {
    which: whichOf(question),
    take: ({ day, event_type: type, document }, entries) => {
      const mark = marks.get(type) ?? otherMarks;
      const startMs = day * DAY_MS;
      if (mark === undefined) return;
      if (startMs >= fromMs && startMs + DAY_MS <= untilMs) {
        const base = (startMs - fromMs) * MARKS + mark;
        eachTime(document, (player, ms) => entries.add(player, base + ms * MARKS, 1));
        return;
      }
      eachTime(document, (player, ms) => {
        const key = keyOf(type, startMs + ms);
        if (key !== undefined) entries.add(player, key, 1);
      });
    },
    keyOf: ({ type, ms }) => keyOf(type, ms),
    judge: (player) => judge(own.expand(question, player)),
  });
};
