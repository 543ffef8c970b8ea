import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { App } from "../../app.ts";
import {
  type Access,
  type Actor,
  actorOf,
  ADMINS,
  DESIGNERS,
  EVERY_ROLE,
  tenantOf,
} from "../../domain/kernel/caller.ts";
import { publishKeysChanged } from "../../domain/accounts/api-keys/api-key.ts";
import { DEFINITION_KINDS } from "../../domain/registries/definition-kinds.ts";
import {
  createProject,
  deleteProject,
  getProject,
  listProjects,
  NewProject,
  openSandbox,
  PROJECT_SORTS,
  showProject,
} from "../../domain/accounts/projects/projects.ts";
import { SettingsShape } from "../../domain/evaluation/project-settings.ts";
import { findProjectsWithEvents } from "../../domain/tracking/event-schemas.ts";
import { syncSandbox } from "../../domain/registries/configuration/sandbox-sync.ts";
import { group, Reply } from "../route.ts";
import { invalid, notFound } from "../../domain/kernel/errors.ts";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import { parseDuration } from "../../domain/evaluation/language/operators.ts";
import {
  changeTestClock,
  ClockBody,
  type ClockChange,
  findSandbox,
  readTestClock,
  type TestClock,
} from "../../domain/registries/clock/test-clock.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { isProjectOf } from "../../domain/accounts/projects/project.ts";
import { changeProject } from "../../domain/economy/levels/relevel.ts";
import { countsOf, Deleted, deleted, Order, pageReply } from "./bodies.ts";
import { dropIndexes } from "./leaderboards.ts";
import { provenAgain } from "./mfa-login.ts";

const SandboxBody = z.object({
  projectId: z.uuid(),
  sandboxProjectId: z.uuid(),
});

const TYPES = ["rule", "leaderboard", "analytics_report", ...DEFINITION_KINDS.map(({ kind }) => kind)];

const SyncBody = z.object({
  sandboxProjectId: z.uuid(),
  rules: z.int().meta({ description: "Rules that were created or changed" }),
  leaderboards: z.int().meta({ description: "Leaderboards that were created or changed" }),
  levelCurve: z.int().meta({ description: "1 when the level curve was another" }),
  analyticsReports: z.int().meta({ description: "Saved reports that were created or changed" }),
  definitions: countsOf(DEFINITION_KINDS.map(({ plural }) => plural)).meta({
    description: "Other definitions that were created, changed or archived, by kind",
  }),
  skipped: z
    .array(z.object({ type: z.enum(TYPES), key: z.string(), reason: z.string() }))
    .meta({ description: "Definitions of the sandbox that stay unchanged, and why" }),
});

const sandboxes = group({ tag: "Projects", project: "path", access: { roles: ADMINS } });

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

const clocks = group({ tag: "Projects", project: "path", response: ClockBody });

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

const ProjectBody = z
  .object({
    id: z.uuid(),
    tenantId: z.uuid(),
    name: z.string(),
    description: z.string().nullable(),
    timezone: z.string(),
    settings: SettingsShape,
    allowedOrigins: z.array(z.string()),
    sandboxProjectId: z
      .uuid()
      .nullable()
      .meta({ description: "Where test keys act; null until it is needed" }),
    sandboxOf: z.uuid().nullable().meta({ description: "Set on a sandbox: the project it belongs to" }),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Project" });

const ListedProjectBody = ProjectBody.extend({
  hasEvents: z.boolean().meta({ description: "Whether it has got an event" }),
}).meta({ id: "ListedProject" });

/** "none": these operations read or change the project itself; they do not take place in it. */
const common = group({ tag: "Projects", project: "none" });

export const projectRoutes = [
  common.get("/projects", "listProjects", {
    summary: "List projects",
    description: "An API key sees its own project and, a test key, its sandbox.",
    access: { scope: "projects:read", roles: EVERY_ROLE },
    query: PageQuery.extend({
      sort: z.enum(PROJECT_SORTS).default("createdAt"),
      order: Order,
      search: z.string().min(1).max(255).optional().meta({ description: "Part of the name, in any case" }),
      include: z.enum(["sandboxes"]).optional().meta({ description: "Lists sandboxes too" }),
    }),
    response: pageBody(ListedProjectBody),
    outside: async (app, { caller, query, actor }) => {
      const tenantId = tenantOf(caller);
      const onlyIds = caller.kind === "key" ? [caller.ownerProjectId, caller.projectId] : undefined;
      const listed = await app.transact((work) => listProjects(work, tenantId, { ...query, onlyIds }));
      const projectIds = listed.projects.map(({ id }) => id);
      // Rows of projects are read in the scope of these.
      const within = app.transactAs({ role: "web", tenantId, projectIds, by: actor });
      const active = await within((work) => findProjectsWithEvents(work, projectIds));
      const show = (project: (typeof listed.projects)[number]) => ({
        ...project,
        hasEvents: active.has(project.id),
      });
      return pageReply(listed, "projects", query, show);
    },
  }),
  common.post("/projects", "createProject", {
    summary: "Create a project",
    access: { roles: ADMINS },
    body: NewProject,
    example: { name: "Space Farmers", timezone: "Europe/Berlin" },
    status: 201,
    response: ProjectBody,
    errors: ["PAYMENT_REQUIRED"],
    run: async (work, { caller, body }) =>
      showProject(work, await createProject(work, tenantOf(caller), body)),
  }),
  common.get("/projects/{projectId}", "getProject", {
    summary: "Get a project",
    description: "An API key may read its own project and, a test key, its sandbox.",
    access: { scope: "projects:read", roles: EVERY_ROLE },
    response: ProjectBody,
    run: async (work, { caller, params }) => {
      if (!isProjectOf(caller, params.projectId)) throw notFound("Project");
      return showProject(work, await getProject(work, tenantOf(caller), params.projectId));
    },
  }),
  common.patch("/projects/{projectId}", "updateProject", {
    // Its settings may begin work in it.
    project: "path",
    summary: "Change a project",
    description:
      "Changes the given fields; `description: null` clears it. Of `settings`, too, only the " +
      "given ones.",
    access: { roles: ADMINS },
    body: NewProject.partial(),
    example: { name: "Space Farmers 2", allowedOrigins: ["https://game.example.com"] },
    response: ProjectBody,
    run: async (work, { caller, projectId, body }, app) => {
      publishKeysChanged(work, app.topics);
      const where = { tenantId: tenantOf(caller), projectId, actor: actorOf(caller) };
      return showProject(work, await changeProject(work, where, body));
    },
  }),
  common.delete("/projects/{projectId}", "deleteProject", {
    summary: "Delete a project",
    description:
      "With its sandbox. Its API keys stop working within 5 seconds. Whoever has a second factor proves it " +
      "within 10 minutes before.",
    access: { roles: ADMINS },
    response: Deleted,
    ...provenAgain,
    run: async (work, { caller, params }, app) => {
      publishKeysChanged(work, app.topics);
      return deleted(deleteProject(work, tenantOf(caller), params.projectId));
    },
  }),
  sandboxes.post("/projects/{projectId}/sandbox", "createSandbox", {
    summary: "Create the sandbox of a project",
    description:
      "201, or 200 when it exists already. The first test key creates it too. It starts with the project's " +
      "settings and default definitions.",
    status: 201,
    otherStatus: 200,
    response: SandboxBody,
    run: async (work, { caller, projectId }) => {
      const { project, sandbox, isNew } = await openSandbox(work, tenantOf(caller), projectId);
      return new Reply(isNew ? 201 : 200, { projectId: project.id, sandboxProjectId: sandbox.id });
    },
  }),
  sandboxes.post("/projects/{projectId}/sandbox/sync", "syncSandbox", {
    summary: "Copy a project's definitions into its sandbox",
    description:
      "Settings, level curve, definitions of every kind, leaderboards, rules and saved reports (without " +
      "those who get mails), by key, all at once; the sandbox is made if there is none. A definition with " +
      "the same key becomes that of the project as a new version. What only the sandbox has stays, and so " +
      "do its players, events and scores.",
    response: SyncBody,
    outside: async (app, { caller, projectId, actor }) => {
      const tenantId = tenantOf(caller);
      const [from, to] = await app.transact(async (work) => {
        const { project, sandbox } = await openSandbox(work, tenantId, projectId);
        return [project.id, sandbox.id] as const;
      });
      const inBoth = app.transactAs({ role: "web", tenantId, projectIds: [from, to], by: actor });
      const { closedPeriodIds, ...synced } = await inBoth((work) => {
        publishKeysChanged(work, app.topics);
        return syncSandbox(work, { from, to, actor: actorOf(caller) });
      });
      const body = { sandboxProjectId: to, ...synced };
      return new Reply(200, body, {}, async () => {
        await dropIndexes(app, to, closedPeriodIds);
        return body;
      });
    },
  }),
  clocks.get("/projects/{projectId}/sandbox/clock", "getSandboxClock", {
    access,
    summary: "Read the clock of the sandbox",
    description: "With what its latest advance has done, or has done so far.",
    outside: (app, { actor, projectId }) => read(app, { actor, projectId }),
  }),
  clocks.put("/projects/{projectId}/sandbox/clock", "setSandboxClock", {
    access,
    summary: "Advance the clock of the sandbox",
    description:
      "What falls due on the way is done in order, once each, before the answer. An advance that takes " +
      `more than ${WAIT_MAX_MS / 1_000} s goes on as a job: \`lastAdvance.status\` is RUNNING then. One at ` +
      "a time; at most two years ahead of the server's clock. Only a sandbox has such a clock.",
    body: Change,
    example: { advance: "P1D" },
    needsBody: true,
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
