import { Migration } from "@mikro-orm/migrations";

/** Refresh tokens by the hash of their secret; those that replace one another share a family. */
export class Migration20261121000004 extends Migration {
  override up(): void {
    this.addSql(`create table refresh_tokens (
      hash text primary key,
      user_id uuid not null references users (id) on delete cascade,
      family_id uuid not null,
      expires_at timestamptz(3) not null,
      used_at timestamptz(3),
      created_at timestamptz(3) not null)`);
    this.addSql(`create index refresh_tokens_user_idx on refresh_tokens (user_id, created_at, hash)`);
    this.addSql(`create index refresh_tokens_family_idx on refresh_tokens (family_id)`);
  }

  override down(): void {
    this.addSql(`drop table refresh_tokens`);
  }
}
