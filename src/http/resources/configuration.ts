import { z } from "zod";
import type { App } from "../../app.ts";
import { ADMINS, BUILDERS, DESIGNERS, EVERY_ROLE } from "../../domain/kernel/access.ts";
import { actorOf, tenantOf } from "../../domain/kernel/caller.ts";
import { diffConfig } from "../../domain/registries/configuration/diff.ts";
import {
  CONFIG_FORMAT,
  ConfigDocument,
  readConfigDocument,
} from "../../domain/registries/configuration/document.ts";
import { exportConfig } from "../../domain/registries/configuration/export.ts";
import { importConfig } from "../../domain/registries/configuration/import.ts";
import { DOCUMENT_MAX_BYTES, DOCUMENT_PARTS_MAX } from "../../domain/kernel/limits.ts";
import { notFound } from "../../domain/kernel/errors.ts";
import { WEB_LONG } from "../../domain/kernel/timeouts.ts";
import { Project, settingsOf } from "../../domain/accounts/projects/project.ts";
import { changeProject } from "../../domain/economy/levels/change-project.ts";
import { SettingsPatch, SettingsShape } from "../../domain/accounts/projects/settings.ts";
import { route } from "../route.ts";

/** Of every operation whose body is a document: what a project may keep fits. */
const takesDocument = {
  bodyLimit: DOCUMENT_MAX_BYTES,
  bodyPartsMax: DOCUMENT_PARTS_MAX,
  isOfConfiguration: true,
  timeouts: WEB_LONG,
} as const;

const Change = z.object({
  section: z.string().meta({ example: "badges" }),
  key: z.string(),
  action: z.enum(["CREATE", "UPDATE", "ARCHIVE"]),
  fields: z.array(z.string()).meta({ description: "The fields that differ" }),
});

const DiffBody = z.strictObject({
  document: ConfigDocument,
  prune: z
    .boolean()
    .default(false)
    .meta({ description: "Archive everything that a section of the document does not name" }),
});

const ImportBody = DiffBody.extend({
  dryRun: z.boolean().default(false).meta({ description: "As /config/diff" }),
});

/** Parses a body whose `document` is read in slices. */
const inSlices =
  <S extends z.ZodObject>(schema: S) =>
  async (raw: unknown): Promise<z.output<S>> => {
    const { document: given, ...rest } = z.looseObject({ document: z.unknown() }).parse(raw);
    const others = schema.omit({ document: true }).parse(rest);
    try {
      return { ...others, document: await readConfigDocument(given) } as z.output<S>;
    } catch (error) {
      if (!(error instanceof z.ZodError)) throw error;
      throw new z.ZodError(error.issues.map((issue) => ({ ...issue, path: ["document", ...issue.path] })));
    }
  };

/** Computes what a document would change; compared without holding database resources. */
const changesOf = async (app: App, projectId: string, wanted: { document: ConfigDocument; prune: boolean }) =>
  diffConfig(await app.transact((work) => exportConfig(work, projectId)), wanted);

const common = { tag: "Configuration", project: "caller" } as const;
const example = { format: CONFIG_FORMAT, currencies: [{ key: "coins", name: "Coins" }] };

export const configurationRoutes = [
  route({
    ...common,
    method: "get",
    path: "/config/export",
    id: "exportConfig",
    summary: "Export all definitions",
    description:
      "One document: settings, level curve, economy, leaderboards and rules, by key, without ids, so " +
      "that it can be kept in version control and imported into another project. Archived things are not " +
      "in it, nor edits of rules that nobody has published.",
    access: { scope: "config:read", roles: EVERY_ROLE },
    isOfConfiguration: true,
    timeouts: WEB_LONG,
    response: z.record(z.string(), z.unknown()).meta({ example }),
    run: (app, { projectId }) => app.transact((work) => exportConfig(work, projectId)),
  }),
  route({
    ...common,
    method: "post",
    path: "/config/diff",
    id: "diffConfig",
    summary: "Compare a document with the project",
    description: "What an import would change. Changes nothing.",
    access: { scope: "config:read", roles: BUILDERS },
    ...takesDocument,
    body: DiffBody,
    readBody: inSlices(DiffBody),
    response: z.object({ changes: z.array(Change) }),
    run: async (app, { projectId, body: { document, prune } }) => ({
      changes: await changesOf(app, projectId, { document, prune }),
    }),
  }),
  route({
    ...common,
    method: "post",
    path: "/config/import",
    id: "importConfig",
    summary: "Import a document",
    description:
      "Makes the project match the document: completely or, when anything is refused, not at all. Sections " +
      "that the document leaves out stay as they are. What was archived is restored by its key. Settings " +
      "and time zone are for ADMINs; a key needs `rules:manage` for rules and `leaderboards:manage` for " +
      "leaderboards, too.",
    access: { scope: "config:manage", roles: DESIGNERS },
    ...takesDocument,
    body: ImportBody,
    readBody: inSlices(ImportBody),
    response: z.object({ applied: z.boolean(), changes: z.array(Change) }),
    run: async (app, { caller, projectId, signal, body: { dryRun, prune, document: given } }) => {
      const document = given as ConfigDocument;
      if (dryRun) return { applied: false, changes: await changesOf(app, projectId, { document, prune }) };
      const actor = actorOf(caller);
      const options = { document, prune, tenantId: tenantOf(caller), caller, actor, signal };
      return { applied: true, changes: await app.transact((work) => importConfig(work, projectId, options)) };
    },
  }),
  route({
    ...common,
    method: "get",
    path: "/project-settings",
    id: "getProjectSettings",
    summary: "Get the project's settings",
    access: { scope: "config:read", roles: EVERY_ROLE },
    response: SettingsShape,
    run: (app, { projectId }) =>
      app.transact(async ({ em }) => {
        const project = await em.findOne(Project, { id: projectId });
        if (!project) throw notFound("project");
        return settingsOf(project);
      }),
  }),
  route({
    ...common,
    method: "patch",
    path: "/project-settings",
    id: "updateProjectSettings",
    summary: "Change the project's settings",
    description:
      "Given fields replace existing ones; the same applies within `lives` and `traceSampling`. Turning " +
      "`allowLevelDown` on starts a job that lowers levels that are above their XP.",
    access: { scope: "config:manage", roles: ADMINS },
    body: SettingsPatch,
    response: SettingsShape,
    run: (app, { caller, projectId, body }) =>
      app.transact(async (work) =>
        settingsOf(
          await changeProject(
            work,
            { tenantId: tenantOf(caller), projectId, actor: actorOf(caller) },
            { settings: body },
          ),
        ),
      ),
  }),
];
