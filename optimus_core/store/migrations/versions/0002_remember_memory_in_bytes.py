"""Remember a workload's memory in bytes by role, no longer as a factor on whatever is asked for

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op


revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('optimus_workloads', sa.Column('memory', sa.JSON(), nullable=True))
    op.drop_column('optimus_workloads', 'memory_factor')


def downgrade() -> None:
    op.add_column(
        'optimus_workloads', sa.Column('memory_factor', sa.Float(), nullable=False, server_default='1.0')
    )
    op.drop_column('optimus_workloads', 'memory')
