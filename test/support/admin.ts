import { createAdmin } from "../../src/domain/admin/admins.ts";
import { newId } from "../../src/domain/ids.ts";
import type { TestApp } from "./app.ts";

export type Admin = { adminId: string; token: string; email: string; password: string };

/** A super-admin of a test's own, logged in. */
export const anAdmin = async ({ app }: TestApp): Promise<Admin> => {
  const email = `${newId()}@platform.example.com`;
  const password = "Root-of-7-trees";
  const { id, sessionVersion } = await createAdmin(app, { email, name: "Test Admin", password });
  const { token } = await app.tokens.signAdmin({ sub: id, ver: sessionVersion });
  return { adminId: id, token, email, password };
};
