import { Migration } from "@mikro-orm/migrations";

/** Players by the beginning of their name or external id, for the search over everything. */
export class Migration20261129000401 extends Migration {
  override up(): void {
    this.addSql(
      `create index players_id_prefix_idx on players (project_id, external_user_id text_pattern_ops)`,
    );
    this.addSql(
      `create index players_name_prefix_idx on players (project_id, display_name text_pattern_ops)
        where display_name is not null`,
    );
  }

  override down(): void {
    this.addSql(`drop index players_id_prefix_idx`);
    this.addSql(`drop index players_name_prefix_idx`);
  }
}
