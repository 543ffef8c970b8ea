import { isBefore, type Operation } from "./history.ts";

export type Message = { seq: number; id: string; content: string; senderId: string };
/** One attempt to send; attempts of one message have one `content`, which no other message has. */
export type Send = Operation<{ content: string; senderId: string }, { seq: number; id: string }>;
/** What a reader was shown in one session: messages one by one, or many at once on coming and coming back. */
export type Delivery = { isHistory: boolean; messages: readonly Message[] };
export type Reader = { name: string; sessions: readonly (readonly Delivery[])[] };

export type AppendHistory = {
  sends: readonly Send[];
  /** By seq. */
  stored: readonly Message[];
  readers: readonly Reader[];
};

const textOf = ({ id, content, senderId }: Message): string => `${content} of ${senderId} as ${id}`;

const storedViolations = ({ sends, stored }: AppendHistory): string[] => {
  const sent = new Set(sends.map(({ value }) => `${value.senderId} ${value.content}`));
  const times = Map.groupBy(stored, ({ senderId, content }) => `${senderId} ${content}`);
  return [
    ...stored.flatMap(({ seq }, i) => (seq === i + 1 ? [] : [`place ${i + 1} has seq ${seq}`])),
    ...[...times].flatMap(([what, all]) => (all.length > 1 ? [`${what} is there ${all.length} times`] : [])),
    ...[...times.keys()].filter((what) => !sent.has(what)).map((what) => `${what} was never sent`),
  ];
};

const acknowledged = (sends: readonly Send[]): Send[] => sends.filter(({ outcome }) => outcome === "ok");

const ackViolations = ({ sends, stored }: AppendHistory): string[] => {
  const bySeq = new Map(stored.map((message) => [message.seq, message]));
  return acknowledged(sends).flatMap(({ value, result }) => {
    const found = bySeq.get(result!.seq);
    const want = textOf({ ...value, ...result! });
    if (found && textOf(found) === want) return [];
    return [
      `${want} was acknowledged as ${result!.seq}, where there is ${found ? textOf(found) : "nothing"}`,
    ];
  });
};

/** Attempts of one message as one operation: from the first attempt to the first answer. */
const wholeSends = (sends: readonly Send[]): Send[] =>
  [...Map.groupBy(sends, ({ value }) => value.content).values()].flatMap((attempts) => {
    const [answered] = acknowledged(attempts);
    const endedMs = Math.min(...acknowledged(attempts).map((attempt) => attempt.endedMs));
    const invokedMs = Math.min(...attempts.map((attempt) => attempt.invokedMs));
    return answered ? [{ ...answered, invokedMs, endedMs }] : [];
  });

/** Who was answered before somebody else began has the lower number. */
const orderViolations = ({ sends }: AppendHistory): string[] => {
  const whole = wholeSends(sends).toSorted((a, b) => a.result!.seq - b.result!.seq);
  return whole.flatMap((later, i) =>
    whole
      .slice(0, i)
      .filter((earlier) => isBefore(later, earlier))
      .map((earlier) => `${later.value.content} was answered before ${earlier.value.content} began`),
  );
};

const readerViolations = (stored: readonly Message[], { name, sessions }: Reader): string[] => {
  const bySeq = new Map(stored.map((message) => [message.seq, textOf(message)]));
  const shown = sessions.flat().flatMap(({ messages }) => messages);
  const seen = new Set(shown.map(({ seq }) => seq));
  const other = shown.filter((message) => bySeq.get(message.seq) !== textOf(message));
  const gaps = sessions.flatMap((deliveries) => {
    // What has not begun with the history has nothing to go on from.
    let last = -1;
    return deliveries.flatMap(({ isHistory, messages }) => {
      const before = last;
      last = Math.max(last, 0, ...messages.map(({ seq }) => seq));
      const [first] = messages;
      const isGap = !isHistory && first && first.seq > before + 1;
      return isGap ? [`${name} was shown ${first.seq} right after ${before}`] : [];
    });
  });
  return [
    ...other.map((one) => `${name} saw ${textOf(one)} at ${one.seq}, where there is ${bySeq.get(one.seq)}`),
    ...stored.flatMap(({ seq }) => (seen.has(seq) ? [] : [`${name} never saw ${seq}`])),
    ...gaps,
  ];
};

/** What a history of one channel proves to be wrong, one line each; nothing when all is well. */
export const appendViolations = (history: AppendHistory): string[] => [
  ...storedViolations(history),
  ...ackViolations(history),
  ...orderViolations(history),
  ...history.readers.flatMap((reader) => readerViolations(history.stored, reader)),
];
