import { z } from "zod";
import type { App } from "../../app.ts";
import { actorOf, ADMINS, tenantOf } from "../../domain/kernel/caller.ts";
import { publishKeysChanged } from "../../domain/accounts/api-keys/changes.ts";
import { DEFINITION_KINDS } from "../../domain/registries/definition-kinds.ts";
import { openSandbox } from "../../domain/accounts/projects/projects.ts";
import { syncSandbox } from "../../domain/registries/sync/definitions.ts";
import { Reply, group } from "../route.ts";

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
  definitions: z
    .object(Object.fromEntries(DEFINITION_KINDS.map(({ plural }) => [plural, z.int()])))
    .meta({ description: "Other definitions that were created, changed or archived, by kind" }),
  skipped: z
    .array(z.object({ type: z.enum(TYPES), key: z.string(), reason: z.string() }))
    .meta({ description: "Definitions of the sandbox that stay unchanged, and why" }),
});

/** Frees rank indexes, which only use memory: one that stays is simply never read again. */
const dropIndexes = async (app: App, projectId: string, periodIds: readonly string[]): Promise<void> => {
  try {
    for (const periodId of periodIds) await app.ranks.drop(projectId, periodId);
  } catch (err) {
    app.log.warn({ err, projectId }, "rank indexes of closed periods stay");
  }
};

const common = group({ tag: "Projects", project: "path", access: { roles: ADMINS } });

export const sandboxRoutes = [
  common.post("/projects/{projectId}/sandbox", "createSandbox", {
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
  common.post("/projects/{projectId}/sandbox/sync", "syncSandbox", {
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
];
