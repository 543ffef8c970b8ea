import { Migration } from "@mikro-orm/migrations";

/** The session that goes on with a code of a link; null: the code begins one. */
export class Migration20261127000100 extends Migration {
  override up(): void {
    this.addSql(`alter table oauth_codes add column session_id uuid`);
  }

  override down(): void {
    this.addSql(`alter table oauth_codes drop column session_id`);
  }
}
