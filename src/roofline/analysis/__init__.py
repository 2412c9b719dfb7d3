"""Run → verdict, time budget, advice: what the figures mean."""

from roofline.analysis.judge import judge as judge
