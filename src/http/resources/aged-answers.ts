import type { App } from "../../app.ts";
import { type Aged, ANSWER_AGE_MS, ReadyJson } from "../../domain/kernel/caches.ts";
import { Reply } from "../route.ts";
import { Flag } from "./bodies.ts";

/** How old what an answer shows may be, in ms: everything committed before that is in it. */
const DATA_AGE = "X-Data-Age-Ms";

/** The header of answers that may come from memory, for `headers` of a route. */
export const AGED = {
  [DATA_AGE]:
    `How old what is shown may be, in ms: what is kept is used for ${ANSWER_AGE_MS}, and reading takes its ` +
    "time; 0 for what was read now",
} as const;

export const ageOf = ({ ageMs }: Aged<unknown>) => ({ [DATA_AGE]: String(Math.round(ageMs)) });

export const Fresh = Flag.meta({ description: `true: as it is now, not as up to ${ANSWER_AGE_MS} ms ago` });

type Kept = {
  projectId: string;
  /** What the answer depends on besides the project. */
  key: unknown[];
  isFresh: boolean;
  read: () => Promise<unknown>;
};

/** Answers with what was read at most ANSWER_AGE_MS ago for the same key, or with what is read now. */
export const keptReply = async (app: App, { projectId, key, isFresh, read }: Kept): Promise<Reply<never>> => {
  const name = JSON.stringify([projectId, ...key]);
  const kept = await app.answers.get(
    { projectId, owner: projectId, key: name },
    {
      isFresh,
      make: async () => {
        const ready = new ReadyJson(await read());
        return { value: ready, bytes: ready.bytes + name.length };
      },
    },
  );
  return new Reply(200, kept.value as never, ageOf(kept));
};
