import { sql } from "kysely";
import { notFound } from "../errors.ts";
import type { Work } from "../work.ts";
import { User } from "./user.ts";

/** Replaces a user's password and ends the sessions of before. @throws NOT_FOUND */
export const setPassword = async (work: Work, userId: string, passwordHash: string): Promise<void> => {
  const user = await work.em.findOne(User, { id: userId });
  if (!user) throw notFound("User");
  user.passwordHash = passwordHash;
  user.updatedAt = work.now;
  await sql`delete from refresh_tokens where user_id = ${userId}::uuid`.execute(work.db);
};
