"""The scheduler core of Optimus: no Airflow import anywhere in it.

Importing this package costs nothing but the standard library; models and the store load when used.
"""

__version__ = "0.1.0"
