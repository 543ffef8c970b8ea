import { z } from "zod";
import { ConfigChange } from "../../domain/registries/configuration/diff.ts";
import {
  CONFIG_FORMAT,
  ConfigDocument,
  readConfigDocument,
} from "../../domain/registries/configuration/document.ts";
import { exportShown } from "../../domain/registries/configuration/export.ts";
import {
  importConfig,
  type ReportQuestions,
  tryImport,
} from "../../domain/registries/configuration/import.ts";
import { DomainError, notFound } from "../../domain/kernel/errors.ts";
import { actorOf, ADMINS, BUILDERS, DESIGNERS, EVERY_ROLE, tenantOf } from "../../domain/kernel/caller.ts";
import { Zone } from "../../domain/evaluation/language/syntax.ts";
import { inZone } from "../../domain/kernel/iso-time.ts";
import { DOCUMENT_MAX_BYTES, DOCUMENT_PARTS_MAX } from "../../domain/kernel/limits.ts";
import { WEB_LONG } from "../../domain/kernel/timeouts.ts";
import { Project, settingsOf } from "../../domain/accounts/projects/project.ts";
import { changeProject } from "../../domain/economy/levels/relevel.ts";
import { SettingsPatch } from "../../domain/accounts/projects/projects.ts";
import { SettingsShape } from "../../domain/evaluation/project-settings.ts";
import { group, type RouteContext } from "../route.ts";
import { readQuestion } from "./analytics-report-query.ts";

/** Returns an error of a report with its place in the body of an import. */
const placed = (error: unknown, place: number): unknown => {
  if (!(error instanceof DomainError)) return error;
  const { code, message, reason } = error;
  const path = `document.analyticsReports.${place}`;
  const details = error.details.map(({ field, message: text }) => ({
    field: `${path}.${field}`,
    message: text,
  }));
  return new DomainError(code, `${path}: ${message}`, {
    details,
    ...(reason === undefined ? {} : { reason }),
  });
};

/**
 * Reads what the reports of a document ask, by key; none is asked.
 * @throws DomainError VALIDATION_ERROR with the place in the body
 */
const readQuestions = async ({ analyticsReports = [] }: ConfigDocument): Promise<ReportQuestions> => {
  const questions = new Map<string, Awaited<ReturnType<typeof readQuestion>>>();
  for (const [place, { key, report, parameters, range }] of analyticsReports.entries()) {
    try {
      questions.set(key, await readQuestion({ report, parameters, range }));
    } catch (error) {
      throw placed(error, place);
    }
  }
  return questions;
};

/** Of every operation whose body is a document: what a project may keep fits. */
const takesDocument = {
  bodyLimit: DOCUMENT_MAX_BYTES,
  bodyPartsMax: DOCUMENT_PARTS_MAX,
  isOfConfiguration: true,
  timeouts: WEB_LONG,
} as const;

const DiffBody = z.strictObject({
  document: ConfigDocument,
  prune: z.boolean().default(false).meta({
    description: "Archive everything that a section of the document does not name; delete saved reports",
  }),
});

const ImportBody = DiffBody.extend({
  dryRun: z
    .boolean()
    .default(false)
    .meta({ description: "Make the import and take it back: what it would refuse is refused" }),
});

/** Parses a body whose `document` is read in slices. */
const inSlices =
  <S extends z.ZodObject>(schema: S) =>
  async (raw: unknown): Promise<z.output<S>> => {
    const { document: given, ...rest } = z.looseObject({ document: z.unknown() }).parse(raw);
    const others = schema.omit({ document: true }).parse(rest);
    // Its dates are days of its own zone, where it has one: the project has that zone too afterwards.
    const zone = Zone.safeParse((given as { timezone?: unknown } | null)?.timezone).data;
    const read = () => readConfigDocument(given);
    try {
      const document = await (zone === undefined ? read() : inZone(zone, read));
      return { ...others, document } as z.output<S>;
    } catch (error) {
      if (!(error instanceof z.ZodError)) throw error;
      throw new z.ZodError(error.issues.map((issue) => ({ ...issue, path: ["document", ...issue.path] })));
    }
  };

type Asked = Pick<RouteContext<unknown, unknown, unknown>, "caller" | "projectId" | "signal"> & {
  body: { document: unknown; prune: boolean };
};

/** Reads what an import needs. @throws DomainError VALIDATION_ERROR with the place in the body */
const importOf = async ({ caller, signal, body }: Asked) => {
  const document = body.document as ConfigDocument;
  const questions = await readQuestions(document);
  const [tenantId, actor] = [tenantOf(caller), actorOf(caller)];
  return { document, questions, prune: body.prune, tenantId, caller, actor, signal };
};

const common = group({ tag: "Configuration", project: "caller" });
const example = { format: CONFIG_FORMAT, currencies: [{ key: "coins", name: "Coins" }] };

export const configurationRoutes = [
  common.get("/config/export", "exportConfig", {
    summary: "Export all definitions",
    description:
      "One document: settings, level curve, economy, leaderboards, rules and saved reports, by key, " +
      "without ids, so that it can be kept in version control and imported into another project. Archived " +
      "things are not in it, nor edits of rules that nobody has published, nor codes of quests, nor who " +
      "gets mails of reports: an import keeps those that the project has.",
    access: { scope: "config:read", roles: EVERY_ROLE },
    isOfConfiguration: true,
    timeouts: WEB_LONG,
    response: z.record(z.string(), z.unknown()).meta({ example }),
    run: (work, { projectId }) => exportShown(work, projectId),
  }),
  common.post("/config/diff", "diffConfig", {
    summary: "Compare a document with the project",
    description:
      "What an import would change. Changes nothing, and refuses in the same way what an import would " +
      "refuse, whoever asks: the import is made and taken back. Whether the caller may make it is for a " +
      "dry run to say.",
    access: { scope: "config:read", roles: BUILDERS },
    ...takesDocument,
    body: DiffBody,
    example: {
      document: { format: "laurel/1", levelCurve: { type: "LINEAR", params: { base: 100, maxLevel: 50 } } },
      prune: false,
    },
    readBody: inSlices(DiffBody),
    response: z.object({ changes: z.array(ConfigChange) }),
    errors: ["PAYMENT_REQUIRED"],
    // What is tried is in no transaction with anything else.
    prepare: async (app, context) => {
      const asked = { ...(await importOf(context)), caller: undefined };
      return tryImport(app.transact, context.projectId, asked);
    },
    outside: async (_, { prepared: changes }) => ({ changes }),
  }),
  common.post("/config/import", "importConfig", {
    summary: "Import a document",
    description:
      "Makes the project match the document: completely or, when anything is refused, not at all. Sections " +
      "that the document leaves out stay as they are. What was archived is restored by its key. Settings " +
      "and time zone are for ADMINs; a key needs `rules:manage` for rules and `leaderboards:manage` for " +
      "leaderboards, too.",
    access: { scope: "config:manage", roles: DESIGNERS },
    ...takesDocument,
    body: ImportBody,
    example: {
      document: { format: "laurel/1", levelCurve: { type: "LINEAR", params: { base: 100, maxLevel: 50 } } },
      dryRun: true,
    },
    readBody: inSlices(ImportBody),
    response: z.object({ applied: z.boolean(), changes: z.array(ConfigChange) }),
    errors: ["PAYMENT_REQUIRED"],
    prepare: async (app, context) => {
      const asked = await importOf(context);
      const isTried = context.body.dryRun;
      return { asked, tried: isTried && (await tryImport(app.transact, context.projectId, asked)) };
    },
    outside: async (app, { projectId, prepared: { asked, tried } }) => {
      if (tried) return { applied: false, changes: tried };
      return { applied: true, changes: await app.transact((work) => importConfig(work, projectId, asked)) };
    },
  }),
  common.get("/project-settings", "getProjectSettings", {
    summary: "Get the project's settings",
    access: { scope: "config:read", roles: EVERY_ROLE },
    response: SettingsShape,
    run: async ({ em }, { projectId }) => {
      const project = await em.findOne(Project, { id: projectId });
      if (!project) throw notFound("project");
      return settingsOf(project);
    },
  }),
  common.patch("/project-settings", "updateProjectSettings", {
    summary: "Change the project's settings",
    description:
      "Given fields replace existing ones; the same applies within `lives` and `traceSampling`. Turning " +
      "`allowLevelDown` on starts a job that lowers levels that are above their XP.",
    access: { scope: "config:manage", roles: ADMINS },
    body: SettingsPatch,
    example: { maxBoostFactor: 5, lives: { enabled: true, max: 5 } },
    response: SettingsShape,
    run: async (work, { caller, projectId, body }) =>
      settingsOf(
        await changeProject(
          work,
          { tenantId: tenantOf(caller), projectId, actor: actorOf(caller) },
          { settings: body },
        ),
      ),
  }),
];
