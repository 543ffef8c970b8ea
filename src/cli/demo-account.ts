import { randomInt, randomUUID } from "node:crypto";
import type { App } from "../app.ts";
import { ApiKey } from "../domain/accounts/api-keys/api-key.ts";
import { createApiKey, revokeApiKey } from "../domain/accounts/api-keys/api-keys.ts";
import { setPassword } from "../domain/accounts/auth/email-verification.ts";
import { User } from "../domain/accounts/auth/user.ts";
import { Project } from "../domain/accounts/projects/project.ts";
import { createProject } from "../domain/accounts/projects/projects.ts";
import { openTenant, Tenant } from "../domain/accounts/tenants/tenant.ts";
import type { Transact, Work } from "../domain/kernel/work.ts";
import { capital, spokenWord } from "./demo-history.ts";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";

/** Nobody can register this address: the API accepts none without a domain. */
export const DEMO_EMAIL = "demo@localhost";
const KEY_NAME = "Demo key";

/** The demo's account and project, as far as they exist. */
export type DemoAccount = { userId: string; tenantId: string; projectId: string | undefined };

type DemoState =
  /** The database is unused. */
  | { kind: "empty" }
  /** No demo, and none to be created: there are other tenants, or the demo was removed. */
  | { kind: "none" }
  | { kind: "found"; account: DemoAccount };

export const findDemo = (transact: Transact): Promise<DemoState> =>
  transact(async ({ em }) => {
    const user = await em.findOne(User, { email: DEMO_EMAIL });
    if (!user) return { kind: (await em.count(Tenant, {})) === 0 ? "empty" : "none" };
    const { id: userId, tenantId } = user;
    const [project] = await em.find(
      Project,
      { tenantId, sandboxOf: null },
      { orderBy: { createdAt: "asc", id: "asc" }, limit: 1 },
    );
    if (project?.deletedAt != null) return { kind: "none" };
    return { kind: "found", account: { userId, tenantId, projectId: project?.id } };
  });

/** Generates a password that can be read out: three words of 18 bits each, and a number. */
export const newPassword = (): string => {
  const word = () => spokenWord(() => randomInt(2 ** 32) / 2 ** 32, 3);
  return `${capital(word())}-${word()}-${randomInt(10, 100)}-${word()}`;
};

/** Creates the tenant and its OWNER, or sets a new password for the one of an interrupted start. */
export const openAccount = async (
  app: App,
  known: DemoAccount | undefined,
): Promise<DemoAccount & { password: string }> => {
  const password = newPassword();
  if (known) {
    const hash = await app.passwords.hash(password);
    await app.transact((work) => setPassword(work, known.userId, hash));
    return { ...known, password };
  }
  const defaults = { autoApproveTenants: true, defaultPlan: app.config.defaultPlan };
  const passwordHash = await app.passwords.hash(password);
  const owner = { email: DEMO_EMAIL, name: "Demo Owner", passwordHash, emailVerified: true };
  const { user } = await app.transact((work) => openTenant(work, defaults, "Demo", owner));
  return { userId: user.id, tenantId: user.tenantId, projectId: undefined, password };
};

export const openProject = async (app: App, { tenantId, projectId }: DemoAccount): Promise<string> =>
  projectId ??
  (await app.transact(async (work) => {
    const description = "Made by the first start. Its data are in its sandbox, where test keys act.";
    return (await createProject(work, tenantId, { name: "Demo", description })).id;
  }));

/** Returns the sandbox of the demo project, and the end of its history, the same at every start. */
export const getSandbox = (app: App, projectId: string): Promise<{ id: string; createdAt: Date }> =>
  app.transact(async ({ em }) => {
    const { id, createdAt } = await em.findOneOrFail(Project, { sandboxOf: projectId });
    return { id, createdAt };
  });

/** Creates a test key with every scope. Earlier ones are revoked, because nobody has seen their secrets. */
export const newDemoKey = (app: App, tenantId: string, projectId: string): Promise<string> =>
  app.transact(async (work) => {
    await revokeDemoKeys(work, tenantId, projectId);
    const body = { name: KEY_NAME, environment: "test" as const, scopes: ["*"] };
    return (await createApiKey(work, app.apiKeys, { tenantId, role: "OWNER", projectId }, body)).secret;
  });

const revokeDemoKeys = async (work: Work, tenantId: string, projectId: string): Promise<void> => {
  const keys = await work.em.find(ApiKey, { projectId, name: KEY_NAME, status: "ACTIVE" });
  for (const { id } of keys) await revokeApiKey(work, { tenantId, projectId }, id);
};

/** State of the demo kept between starts. It does not include the account's password. */
const DemoFile = z.object({
  projectId: z.string(),
  /** A test key of the project: it acts on the project's sandbox. */
  key: z.string(),
  /** Number of events in its history. */
  events: z.int(),
  /** Whether everything was created and the password was shown. */
  isComplete: z.boolean(),
});
type DemoFile = z.output<typeof DemoFile>;

/** Path of the file with the demo's key, readable only by its owner. */
export const demoFilePath = (dataDir: string): string => join(dataDir, "demo.json");

/** Undefined when there is none, or it cannot be parsed. */
export const readDemoFile = async (dataDir: string): Promise<DemoFile | undefined> => {
  try {
    return DemoFile.parse(JSON.parse(await readFile(demoFilePath(dataDir), "utf8")));
  } catch {
    return undefined;
  }
};

/** Writes the file atomically. */
export const writeDemoFile = async (dataDir: string, file: DemoFile): Promise<void> => {
  const draft = `${demoFilePath(dataDir)}.${randomUUID()}`;
  await writeFile(draft, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600, flag: "wx", flush: true });
  await rename(draft, demoFilePath(dataDir));
};

export const removeDemoFile = (dataDir: string): Promise<void> => rm(demoFilePath(dataDir), { force: true });
