import { createAdmin } from "../../../src/domain/accounts/admin/admins.ts";
import { newId } from "../../../src/domain/kernel/ids.ts";
import type { TestApp } from "./app.ts";
import { must } from "../http/client.ts";

export type Admin = { adminId: string; token: string; email: string; password: string };

/** A super-admin of a test's own, logged in. */
export const anAdmin = async ({ app }: TestApp): Promise<Admin> => {
  const email = `${newId()}@platform.example.com`;
  const password = "Root-of-7-trees";
  const { id, sessionVersion } = await createAdmin(app, { email, name: "Test Admin", password });
  const { token } = await app.tokens.signAdmin({ sub: id, ver: sessionVersion });
  return { adminId: id, token, email, password };
};

/** A token for machines, with the scope blog:sync. */
export const aPlatformToken = async (api: TestApp, token: string): Promise<string> => {
  const body = { name: "Site build", scopes: ["blog:sync"] };
  return must(await api.post("/api/v1/superadmin/tokens", body, { token }), 201).token;
};
