import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { App } from "../../app.ts";
import { type Access, type Actor, actorOf, DESIGNERS, tenantOf } from "../../domain/kernel/caller.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import { parseDuration } from "../../domain/evaluation/language/operators.ts";
import { JOB_STATUSES } from "../../domain/long-work/project-jobs.ts";
import {
  changeTestClock,
  type ClockChange,
  DUE_NAMES,
  type DueName,
  findSandbox,
  HAPPENED_MAX,
  readTestClock,
  type TestClock,
} from "../../domain/registries/clock/test-clock.ts";
import { Reply, group } from "../route.ts";

/** How long an answer waits for the advance that it has started, in ms. */
const WAIT_MAX_MS = 20_000;
/** How long it waits before it looks again, at first; each time longer, up to the most. */
const LOOK_AFTER_MS = 30;
const LOOK_AFTER_MAX_MS = 500;

const Change = z
  .object({
    advance: z.string().max(40).optional().meta({
      description: "An ISO 8601 duration in weeks, days, hours, minutes and seconds",
      example: "P1D",
    }),
    to: IsoTime.optional().meta({ description: "A time that is not past" }),
    reset: z.literal(true).optional().meta({ description: "Sets the clock to the server's time" }),
  })
  .refine((body) => Object.values(body).filter((value) => value !== undefined).length === 1, {
    message: "exactly one of advance, to and reset is needed",
  });

const Counts = z.object(
  Object.fromEntries(DUE_NAMES.map((name) => [name, z.int()])) as Record<DueName, z.ZodInt>,
);

const ClockBody = z.object({
  sandboxProjectId: z.uuid(),
  now: z.iso.datetime().meta({ description: "The time of the sandbox; it goes on from there" }),
  serverNow: z.iso.datetime(),
  aheadSeconds: z.int(),
  lastAdvance: z
    .object({
      jobId: z.uuid(),
      status: z.enum(JOB_STATUSES),
      error: z.string().nullable(),
      startedAt: z.iso.datetime(),
      finishedAt: z.iso.datetime().nullable(),
      happened: z.object({
        counts: Counts.meta({ description: "How much of each kind fell due on the way" }),
        first: z
          .array(z.object({ at: z.iso.datetime(), what: z.enum(DUE_NAMES), count: z.int() }))
          .meta({ description: `The first ${HAPPENED_MAX}, in their order` }),
        isCut: z.boolean(),
      }),
    })
    .nullable()
    .meta({ description: "The latest advance, until a day after its end" }),
});

const common = group({ tag: "Projects", project: "path", response: ClockBody });

const access = { roles: DESIGNERS, scope: "config:manage" } as const satisfies Access;

type Asked = { actor: Actor; projectId: string };

/** Runs `run` in the scope of the sandbox that the request names. */
const inSandbox = async (app: App, { actor, projectId }: Asked) => {
  const tenantId = tenantOf(actor.caller);
  const { id } = await app.transact((work) => findSandbox(work, tenantId, projectId));
  const scope = { role: "web", tenantId, projectIds: [id], by: actor } as const;
  return { sandboxProjectId: id, tenantId, transact: app.transactAs(scope) };
};

const changeOf = ({ advance, to, reset }: z.output<typeof Change>): ClockChange => {
  if (reset) return { reset };
  if (to !== undefined) return { to: new Date(to) };
  const advanceMs = parseDuration(advance);
  if (advanceMs === undefined) throw invalid("advance", "must be an ISO 8601 duration, such as P1D or PT6H");
  return { advanceMs };
};

const isMoving = ({ lastAdvance }: TestClock): boolean =>
  lastAdvance?.status === "QUEUED" || lastAdvance?.status === "RUNNING";

const read = async (app: App, asked: Asked): Promise<TestClock> => {
  const { sandboxProjectId, transact } = await inSandbox(app, asked);
  return transact((work) => readTestClock(work, sandboxProjectId));
};

/** Returns the clock when its advance has ended, or after WAIT_MAX_MS. */
const awaited = async (app: App, asked: Asked): Promise<TestClock> => {
  const endMs = performance.now() + WAIT_MAX_MS;
  for (let waitMs = LOOK_AFTER_MS; ; waitMs = Math.min(LOOK_AFTER_MAX_MS, waitMs * 1.3)) {
    const clock = await read(app, asked);
    if (!isMoving(clock) || performance.now() > endMs) return clock;
    await delay(waitMs);
  }
};

export const testClockRoutes = [
  common.get("/projects/{projectId}/sandbox/clock", "getSandboxClock", {
    access,
    summary: "Read the clock of the sandbox",
    description: "With what its latest advance has done, or has done so far.",
    outside: (app, { actor, projectId }) => read(app, { actor, projectId }),
  }),
  common.put("/projects/{projectId}/sandbox/clock", "setSandboxClock", {
    access,
    summary: "Advance the clock of the sandbox",
    description:
      "What falls due on the way is done in order, once each, before the answer. An advance that takes " +
      `more than ${WAIT_MAX_MS / 1_000} s goes on as a job: \`lastAdvance.status\` is RUNNING then. One at ` +
      "a time; at most two years ahead of the server's clock. Only a sandbox has such a clock.",
    body: Change,
    example: { advance: "P1D" },
    needsBody: true,
    errors: ["CONFLICT"],
    outside: async (app, { actor, projectId, body }) => {
      const change = changeOf(body);
      const asked = { actor, projectId };
      const { transact, ...of } = await inSandbox(app, asked);
      const clock = await transact(async (work) => {
        await changeTestClock(work, { ...of, change, createdBy: actorOf(actor.caller) });
        return readTestClock(work, of.sandboxProjectId);
      });
      return new Reply(200, clock, {}, (later) => awaited(later, asked));
    },
  }),
];
