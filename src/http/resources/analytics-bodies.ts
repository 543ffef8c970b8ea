import { z } from "zod";
import type { App } from "../../app.ts";
import { answer, type Asked, type FrameQuery } from "../../domain/analytics/ask.ts";
import { PERIODS, type RangeQuery, WEEK_STARTS } from "../../domain/analytics/range.ts";
import { EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { ANALYTICS } from "../../domain/kernel/timeouts.ts";
import type { Work } from "../../domain/kernel/work.ts";
import { Reply, group } from "../route.ts";

/** What operations of analytics have in common. */
export const question = group({
  tag: "Analytics",
  project: "caller",
  access: { scope: "analytics:read", roles: EVERY_ROLE, needs: { approval: true } },
  timeouts: ANALYTICS,
  isQuestion: true,
  readsReplica: true,
});

const bound = (text: string) => z.string().min(1).max(40).optional().meta({ description: text });

/** When a question is asked about, and by which calendar. */
export const FrameFields = z.object({
  timezone: z.string().min(1).max(64).optional().meta({
    description: "IANA name; days are those of its calendar. Default: the project's",
    example: "UTC",
  }),
  asOf: bound(
    "Events at this time or later do not exist for the question; default: now, or where a replica is",
  ),
  weekStart: z.enum(WEEK_STARTS).optional().meta({ description: "Default: as the project's weeks begin" }),
});

export const RangeFields = z.object({
  from: bound("A local date, or a time with Z or an offset; default: 29 days before to"),
  to: bound("A local date, which is included, or a time, which is not; default: today"),
  period: z.enum(PERIODS).optional().meta({ description: "In place of from and to, up to asOf" }),
});

export const QuestionQuery = z.object({ ...RangeFields.shape, ...FrameFields.shape });

const RangeBody = z
  .object({
    from: z.iso.date(),
    to: z.iso.date(),
    start: z.iso.datetime(),
    end: z.iso.datetime(),
    days: z.int(),
    complete: z.boolean().meta({ description: "Whether it was over at asOf" }),
  })
  .meta({ id: "AnalyticsRange" });

/** What every answer of analytics says beside its own fields. */
export const EnvelopeBody = z.object({
  range: RangeBody,
  timezone: z.string(),
  asOf: z.iso.datetime(),
  generatedAt: z.iso.datetime(),
  cache: z
    .object({ hit: z.boolean(), ageSeconds: z.int() })
    .meta({ description: "Answers come from memory for up to a minute, where nothing has happened since" }),
});

/** Says where the players behind the numbers of an answer are listed. */
export const PlayersLink = z
  .object({
    path: z.string().meta({ example: "/analytics/players" }),
    of: z.string(),
    and: z.array(z.string()).meta({ description: "Parameters that name the number" }),
  })
  .meta({
    id: "AnalyticsPlayersLink",
    description:
      "Where the players behind a number are listed: the path, with `of`, the parameters of this question, " +
      "the asOf of this answer, and those of `and`",
  });

/** @param and parameters that name a number of the question */
export const playersLink = (of: string, and: Readonly<Record<string, unknown>>) => ({
  players: { path: "/analytics/players", of, and: Object.keys(and) },
});

type Ask = {
  id: string;
  projectId: string;
  query: FrameQuery & RangeQuery;
  fields?: unknown;
  /** Of the range, where not as many as a series may have points. */
  daysMax?: number;
};

/** Answers an operation of analytics: `compute` reads its own fields in the transaction of the question. */
export const answerQuestion = <T extends object>(
  app: App,
  { id, projectId, query, fields, daysMax }: Ask,
  compute: (work: Work, asked: Asked) => Promise<T>,
): Promise<Reply<z.output<typeof EnvelopeBody> & T>> =>
  app.transact(async (work) => {
    const key = JSON.stringify([id, query, fields]);
    const asked = { projectId, query, key, daysMax };
    const body = await answer({ work, kept: app.questions }, asked, (given) => compute(work, given));
    return new Reply(200, body as never);
  });
